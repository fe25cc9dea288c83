package memstore

import (
	"testing"
	"unsafe"
)

// The comment of shard says that a decision about a bucket touches one cache line.
func TestShard_CacheLines(t *testing.T) {
	var s shard
	if size := unsafe.Sizeof(s); size%cacheLine != 0 {
		t.Errorf("got a shard of %d bytes, expected a multiple of %d", size, cacheLine)
	}
	if end := unsafe.Offsetof(s.buckets) + unsafe.Sizeof(s.buckets); end > cacheLine {
		t.Errorf("got %d bytes up to the buckets, expected at most %d", end, cacheLine)
	}
}
