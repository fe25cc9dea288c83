//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// servant returns the IDs of the user of servers, and false if that is the user of this process.
func servant() (uid, gid int, other bool, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, false, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid) // numbers on Unix
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid, true, nil
		}
	}
	return 0, 0, false, errors.New("there is no user postgres or nobody, and initdb does not run as root")
}

// leaveRoot makes cmd run as the user of servers.
func leaveRoot(cmd *exec.Cmd) error {
	uid, gid, other, err := servant()
	if other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return err
}

// giveAway makes a path belong to the user of servers.
func giveAway(path string) error {
	uid, gid, other, err := servant()
	if other {
		err = os.Chown(path, uid, gid)
	}
	return err
}

func (p *process) signal(s syscall.Signal) error { return syscall.Kill(p.pid, s) }

func (p *process) kill() error      { return p.signal(syscall.SIGKILL) }
func (p *process) interrupt() error { return p.signal(syscall.SIGINT) }
