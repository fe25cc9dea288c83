package load

import (
	"os"
	"time"
)

func readTimes() (times, error) {
	machine, err := os.ReadFile("/proc/stat")
	if err != nil {
		return times{}, err
	}
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return times{}, err
	}
	t := times{at: time.Now()}
	if t.idle, t.total, err = parseStat(string(machine)); err != nil {
		return times{}, err
	}
	t.process, err = parseSelfStat(string(self))
	return t, err
}
