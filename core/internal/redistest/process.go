package redistest

import (
	"os/exec"
	"runtime"
)

// A process is a child that has been started and is waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the child has ended and is reaped
}

// spawn starts a child that dies with this process.
//
// On Linux the kernel sends the parent death signal when the thread that forked
// the child ends, not when the process does, and Go ends threads as it likes.
// So the child gets a goroutine that holds a thread for exactly as long as the
// child lives: it forks it, and then waits for it.
func spawn(path string, args ...string) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // every ending is the same here: it is gone
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the child at once, a paused one too, and returns when it is reaped.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
