package stacks_test

import (
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// wide is a rule that admits every event of a test.
var wide = core.TokenBucket("wide", core.PerSecond(1_000_000))

// plansOf returns the compiled rules of r and its plans, r itself first.
func plansOf(t testing.TB, r core.Rule) (all []*driver.Compiled) {
	t.Helper()
	var s declared
	testkit.Limiter(t, &s, r)
	for _, d := range s.definitions {
		c, err := d.Compile()
		testkit.Must(t, err)
		all = append(all, c)
	}
	return all
}

// A declared is a Store that keeps the definitions of its rules.
type declared struct {
	driver.Store
	definitions []driver.Definition
}

// Declare implements [driver.Declarer].
func (s *declared) Declare(changes ...driver.Change) error {
	for _, c := range changes {
		s.definitions = append(s.definitions, c.New...)
	}
	return nil
}

// together calls ask in n goroutines, and returns the number of calls that returned true.
func together(n int, ask func() bool) int {
	var count atomic.Int64
	testkit.Concurrently(n, func(int) {
		if ask() {
			count.Add(1)
		}
	})
	return int(count.Load())
}
