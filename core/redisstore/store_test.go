package redisstore_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
)

// TestMain runs more tests at a time than the machine has processors, because most of them
// wait: for servers, for a Cluster, or for deadlines.
func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = parallel.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
	redistest.Main(m)
}

// The suite on a Pipelined store is in TestACL_DocumentedUser.
func TestConformance(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	storetest.Run(t, func(*testing.T) *storetest.Harness { return harness(rdb) })
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.SharedCluster(t).Client()
	storetest.Run(t, func(*testing.T) *storetest.Harness {
		h := harness(rdb)
		h.GivesBack = true
		return h
	})
}
