package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fragment surrounds a block of the README that is not a program.
const fragment = `package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/resilient"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

var (
	_ = errors.Join
	_ = fmt.Fprintln
	_ = slog.Warn
	_ = http.NotFound
	_ = synctest.Test
	_ = time.Second
	_ = redis.NewClient
	_ = core.New
	_ = denycache.New
	_ = failover.New
	_ = gate.And
	_ = lease.New
	_ = memstore.New
	_ = redisstore.New
	_ = resilient.New
	_ = context.Background
	_ driver.Charge
	_ storetest.Fake
	_ = keyfunc.Join
	_ = nethttplimit.New
)

func main() {
	var store core.Store = memstore.New()
	var publicKey jwt.Keyfunc = func(*jwt.Token) (any, error) { return nil, nil }
	rdb := redis.NewClient(&redis.Options{})
	ip, user := keyfunc.RemoteIP(), keyfunc.ContextSubject("user")
	limiter := core.Must(core.New(store, core.SlidingLog("log", core.PerMinute(1))))
	perGuest, perShop, perItem := limiter, limiter, limiter
	valid := func(user, password string) bool { return false }
	var t *testing.T
	_, _, _, _, _, _ = store, publicKey, rdb, ip, user, t
	_, _, _, _, _ = limiter, perGuest, perShop, perItem, valid
	{
%s
		%s
	}
}
`

var declared = regexp.MustCompile(`(?m)^(\w+) :=`)

// Every Go block of the README compiles.
func TestReadme_Compiles(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(".", "_readme")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the README has no Go blocks")
	}
	var programs []string
	for i, block := range blocks {
		code, _, closed := strings.Cut(block, "```")
		if !closed {
			t.Fatalf("block %d does not end", i)
		}
		if !strings.HasPrefix(code, "package ") {
			var used strings.Builder
			for _, m := range declared.FindAllStringSubmatch(code, -1) {
				fmt.Fprintf(&used, "_ = %s\n", m[1])
			}
			code = fmt.Sprintf(fragment, code, used.String())
		}
		program := filepath.Join(dir, fmt.Sprint("block", i))
		if err := os.Mkdir(program, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(program, "main.go"), []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, "./"+program)
	}
	if out, err := exec.Command("go", append([]string{"vet"}, programs...)...).CombinedOutput(); err != nil {
		t.Errorf("the README does not compile: %v\n%s", err, out)
	}
}
