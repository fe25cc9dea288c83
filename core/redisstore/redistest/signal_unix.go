//go:build unix

package redistest

import "syscall"

func (p *process) freeze() error { return syscall.Kill(p.pid, syscall.SIGSTOP) }
func (p *process) resume() error { return syscall.Kill(p.pid, syscall.SIGCONT) }
