package gate

import (
	"testing"
	"unsafe"
)

// A record is the largest allocation of a request. The allocator rounds its size, together
// with a header of 8 bytes, up to 576 bytes on 64-bit systems, or to 640 if it grows: 15 to 30 ns.
func TestRecord_Size(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size+8 > 576 {
		t.Errorf("got %d bytes, want at most %d", size, 576-8)
	}
}
