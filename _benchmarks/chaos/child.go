package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// timeout bounds every wait for a process.
const timeout = 20 * time.Second

// A child is a process that ends when its stdin is closed, and therefore with this
// process, for whatever reason this process ends.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	first string // the first line of its output
	done  chan struct{}
}

func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, done: make(chan struct{})}
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	c.first = strings.TrimSpace(line)
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // the exit code does not matter
	}()
	if err != nil {
		c.end()
		return nil, fmt.Errorf("%s printed no line: %w", cmd.Path, err)
	}
	return c, nil
}

// end closes the stdin of the child and waits until it has ended.
func (c *child) end() {
	c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(timeout):
		c.kill()
	}
}

// kill ends the child with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// until calls check every few milliseconds until it returns nil, or returns its error
// after the timeout.
func until(check func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); ; <-tick.C {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
