package rules_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// manyPolicies returns a file with n policies; the limit of the first one is n a second.
func manyPolicies(n int) []byte {
	var text bytes.Buffer
	text.WriteString("policies:\n")
	for i := range n {
		fmt.Fprintf(&text, "  p%d: {rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}\n", i, n-i)
	}
	return text.Bytes()
}

// Many policies are applied, and replaced while one of them is used.
func TestSet_ManyPolicies(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	c, err := rules.Parse("f", manyPolicies(3000))
	testkit.Must(t, err)
	s, err := rules.New(memstore.New(), c)
	testkit.Must(t, err)
	l := limiter(t, s, "p0")
	changed, err := rules.Parse("f", manyPolicies(2999))
	testkit.Must(t, err)
	applied := make(chan error)
	go func() { applied <- s.Apply(changed) }()
	var longest time.Duration
	for done := false; !done; {
		select {
		case err := <-applied:
			testkit.Must(t, err)
			done = true
		default:
			begin := time.Now()
			testkit.Allow(t, l, "k")
			longest = max(longest, time.Since(begin))
		}
	}
	t.Log("the longest decision took", longest)
	want(t, "changed", l, "k", `token_bucket "p0.r" 2999/s`)
}

func BenchmarkSet_ManyPolicies(b *testing.B) {
	text := manyPolicies(100_000)
	c, err := rules.Parse("f", text)
	testkit.Must(b, err)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			_, err := rules.Parse("f", text)
			testkit.Must(b, err)
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			_, err := rules.New(memstore.New(), c)
			testkit.Must(b, err)
		}
	})
}
