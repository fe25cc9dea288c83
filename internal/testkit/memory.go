package testkit

import "runtime"

// Heap returns the bytes of the heap that are in use after garbage collections, of which the first leaves the values
// of a sync.Pool. The runtime counts the whole process, so no other test may run at the same time.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Allocated calls f a number of times and returns the objects and bytes that a call allocates. The runtime counts the
// allocations of the whole process, so Allocated returns the least count of all calls.
func Allocated(calls int, f func()) (objects, bytes uint64) {
	objects, bytes = 1<<64-1, 1<<64-1
	for range calls {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		objects, bytes = min(objects, after.Mallocs-before.Mallocs), min(bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return objects, bytes
}

// AllocatedPerCall calls f once, and then in three rounds. It returns the least mean of a round, in whole objects and
// bytes, so that allocations of only some of the calls count, too.
func AllocatedPerCall(calls int, f func()) (objects, bytes uint64) {
	f()
	objects, bytes = Allocated(3, func() {
		for range calls {
			f()
		}
	})
	return objects / uint64(calls), bytes / uint64(calls)
}
