package redisstore_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Each directory testdata/v* has the scripts of a release, and the versions of its states.
const versionsFile = "versions.json"

var release = flag.String("release", "", "write the scripts of this release, such as v0.1.0, into testdata")

// writeRelease writes the present scripts and versions into a directory.
func writeRelease(t *testing.T, dir string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	files, _ := redisstore.Scripts()
	versions, err := json.MarshalIndent(redisstore.Versions(), "", "\t")
	testkit.Must(t, err)
	files[versionsFile] = string(versions) + "\n"
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	testkit.Must(t, err)
	return text
}

// A releaseHook makes a client run the scripts of a release. They get the present arguments: a change
// of the arguments that keeps the versions of the states has to translate them here.
type releaseHook struct {
	shas  map[any]any // of the release, by the hash of the present script
	calls int
}

func (h *releaseHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *releaseHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *releaseHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "evalsha" {
			sha := args[1]
			args[1] = h.shas[sha]
			if h.calls++; sha == redisstore.BucketAlone() {
				return translate(ctx, cmd.(pipe.Command), next)
			}
		}
		return next(ctx, cmd)
	}
}

// translate executes cmd, a call of the script for decisions about one bucket each, with the arguments of any script.
func translate(ctx context.Context, cmd pipe.Command, next redis.ProcessHook) error {
	args := cmd.Args()
	n, _ := strconv.Atoi(fmt.Sprint(args[2]))
	keys := 3 + n
	var rest []string
	for _, a := range args[keys:] {
		rest = append(rest, fmt.Sprint(a))
	}
	args = slices.Clone(args[:keys])
	for _, a := range servertest.TakeArguments(rest) {
		args = append(args, a)
	}
	whole := redis.NewCmd(ctx, args...)
	err := next(ctx, whole)
	cmd.SetVal(whole.Val())
	return err
}

// In a rolling deployment, processes of two releases use the same states, if the versions in their keys
// are equal. Together they decide as the definitions say. With -release, the test first writes the
// scripts of a new release.
func TestRelease(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	if *release != "" {
		writeRelease(t, filepath.Join("testdata", *release))
	}
	present := filepath.Join(t.TempDir(), "present")
	writeRelease(t, present)
	dirs, err := filepath.Glob("testdata/v*")
	testkit.Must(t, err)
	server := redistest.Shared(t)
	for _, dir := range append(dirs, present) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			rdb := server.Client()
			hook := &releaseHook{shas: make(map[any]any)}
			_, files := redisstore.Scripts()
			for sha, name := range files {
				loaded, err := rdb.ScriptLoad(t.Context(), string(readFile(t, dir, name))).Result()
				testkit.Must(t, err)
				hook.shas[sha] = loaded
			}
			older := server.Client()
			older.AddHook(hook)
			var versions map[string]string
			testkit.Must(t, json.Unmarshal(readFile(t, dir, versionsFile), &versions))
			for _, a := range testkit.Algorithms {
				if versions[a.Name] != redisstore.Versions()[a.Name] {
					t.Logf("%s: the states of the release have other keys", a.Name)
					continue
				}
				for _, limit := range []core.Limit{core.PerMinute(7), core.PerSecond(9), core.PerHour(300)} {
					before := hook.calls
					shareStates(t, a.Rule("r", limit), rdb, older)
					if hook.calls-before < 100 {
						t.Errorf("%s: the release has made %d calls, want 100 or more", a.Name, hook.calls-before)
					}
				}
			}
		})
	}
}

// shareStates makes random calls about a key through Stores on each of the clients, in random turns, and
// compares the verdicts with those of the reference store.
func shareStates(t *testing.T, rule core.Rule, clients ...redis.UniversalClient) {
	var clock storetest.Clock
	now := redisstore.Clock(func() string { return strconv.FormatInt(clock.Micros(), 10) })
	opts := []redisstore.Option{prefix(), now, redisstore.Unbatched(), redisstore.Timeout(waitLimit)}
	var stores []core.Store
	for _, rdb := range clients {
		stores = append(stores, redisstore.New(rdb, "test", opts...))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	turns := new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, _ storetest.Call) error {
		return storetest.Do(ctx, stores[rng.IntN(len(stores))], charges)
	})
	p := &pair{
		Harness: clock.Harness(turns), t: t, rule: testkit.Compiled(rule),
		ref: &storetest.Fake{Clock: clock.Micros},
	}
	limit := rule.Limit()
	step := int64(2*limit.Per) / int64(limit.Events)
	for range 500 {
		p.Advance(time.Duration(rng.Int64N(step)).Truncate(time.Microsecond))
		cost := 1 + rng.IntN(1+limit.Events/20)
		switch rng.IntN(20) {
		case 0:
			p.do(driver.Charge{Op: driver.Peek, Cost: cost})
		case 1:
			p.do(driver.Charge{Op: driver.Debit, Cost: cost})
		case 2:
			p.do(driver.Charge{Op: driver.Credit, Cost: cost})
		case 3:
			p.do(driver.Charge{Op: driver.Reset})
			p.held = nil
		case 4:
			p.Advance(-limit.Per / 50)
		case 5:
			p.Advance(limit.Per)
		case 6, 7, 8:
			if n := len(p.held); n > 0 {
				p.undo(n - 1 - rng.IntN(min(n, 5)))
			}
		default:
			p.spend(cost)
		}
		p.held = p.held[max(0, len(p.held)-50):]
	}
}
