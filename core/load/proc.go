package load

import (
	"strconv"
	"strings"
)

// parseStat reads the first line of /proc/stat (proc(5)): the idle time, that in
// which the machine waits for a disk included, and all time.
func parseStat(text string) (idle, total float64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0, errNoTimes
	}
	// The guest times, from the ninth number on, are in the user times already.
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 63)
		if err != nil {
			return 0, 0, errNoTimes
		}
		total += float64(n)
		if i == 3 || i == 4 { // idle, iowait
			idle += float64(n)
		}
	}
	return idle, total, nil
}

// userHz is in how many parts /proc divides a second for programs, on every
// architecture that Go runs on.
const userHz = 100

// parseSelfStat reads /proc/self/stat (proc(5)): the seconds that the process has
// used, as itself and in the kernel.
func parseSelfStat(text string) (seconds float64, err error) {
	// The second field is the name of the program in parentheses, which may have
	// spaces and parentheses in it.
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return 0, errNoTimes
	}
	fields := strings.Fields(text[end+1:])
	const utime, stime = 14 - 3, 15 - 3 // the first one here is the third of all
	if len(fields) <= stime {
		return 0, errNoTimes
	}
	for _, field := range []string{fields[utime], fields[stime]} {
		n, err := strconv.ParseUint(field, 10, 63)
		if err != nil {
			return 0, errNoTimes
		}
		seconds += float64(n) / userHz
	}
	return seconds, nil
}
