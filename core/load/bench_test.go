package load

import (
	"testing"
	"time"
)

func benchmark(b *testing.B, signal func() float64) {
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			signal()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				signal()
			}
		})
	})
}

func BenchmarkIdleCPU(b *testing.B) { benchmark(b, IdleCPU()) }

func BenchmarkSmooth(b *testing.B) {
	benchmark(b, Smooth(func() float64 { return 0.5 }, time.Second))
}

func BenchmarkMin(b *testing.B) {
	benchmark(b, Min(IdleCPU(), func() float64 { return 0.5 }))
}

// BenchmarkSample measures a sample of the CPU times, which callers take four times a second.
func BenchmarkSample(b *testing.B) {
	c := newCPU()
	for b.Loop() {
		c.free()
	}
}
