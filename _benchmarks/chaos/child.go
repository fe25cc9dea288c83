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

// patience bounds every wait for a process.
const patience = 20 * time.Second

// A child is a process that ends when its stdin does, and so with this process,
// however that ends.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	first string // the first line it has printed
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
		_ = cmd.Wait() // every ending is the same here: it is gone
	}()
	if err != nil {
		c.end()
		return nil, fmt.Errorf("%s said nothing: %w", cmd.Path, err)
	}
	return c, nil
}

// end closes the stdin of the child and waits until it has ended.
func (c *child) end() {
	c.stdin.Close()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.kill()
	}
}

// kill ends the child with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// until asks check every few milliseconds until it is content.
func until(check func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
