package benchmarks

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// preciseTimers makes the timers of this process precise to about 0.1 ms until the function that it
// returns is called. Otherwise an idle process waits for whole milliseconds.
func preciseTimers(b *testing.B) (stop func()) {
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
	go func() {
		for buf := make([]byte, 8); ; {
			if _, err := file.Read(buf); err != nil {
				return // closed
			}
		}
	}()
	return func() { _ = file.Close() }
}
