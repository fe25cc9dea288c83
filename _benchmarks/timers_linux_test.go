package benchmarks

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// preciseTimers makes the timers of this process precise to about 0.1 ms for the time of b. Otherwise an
// idle process waits for whole milliseconds, and 0.5 ms take 1.1 ms. It takes a quarter of an idle CPU,
// and some percent of the decisions of a busy one.
func preciseTimers(b *testing.B) {
	b.Helper()
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	tick := unix.NsecToTimespec((100 * time.Microsecond).Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: tick, Value: tick}, nil); err != nil {
		b.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	b.Cleanup(func() { _ = file.Close() })
	go func() {
		for buf := make([]byte, 8); ; {
			if _, err := file.Read(buf); err != nil {
				return // closed
			}
		}
	}()
}
