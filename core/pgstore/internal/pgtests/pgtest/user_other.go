//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

func leaveRoot(*exec.Cmd) error { return errors.ErrUnsupported }
func giveAway(string) error     { return errors.ErrUnsupported }

func (p *process) kill() error      { return errors.ErrUnsupported }
func (p *process) interrupt() error { return errors.ErrUnsupported }
