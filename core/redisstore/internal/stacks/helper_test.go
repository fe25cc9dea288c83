package stacks_test

import (
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// wide is a rule that admits every event of a test.
var wide = core.TokenBucket("wide", core.PerSecond(1_000_000))

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
