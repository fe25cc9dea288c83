//go:build unix

package redistest

import "syscall"

func (p *process) pause() error  { return syscall.Kill(p.pid, syscall.SIGSTOP) }
func (p *process) resume() error { return syscall.Kill(p.pid, syscall.SIGCONT) }
