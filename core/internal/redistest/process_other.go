//go:build !linux

package redistest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

// processState is the letter that ps shows for a process: T for one that is
// stopped by a signal, Z for one that is dead and not yet reaped.
func processState(pid int) (byte, error) {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, err
	}
	out = bytes.TrimSpace(out)
	if len(out) == 0 {
		return 0, fmt.Errorf("ps shows no state for process %d", pid)
	}
	return out[0], nil
}
