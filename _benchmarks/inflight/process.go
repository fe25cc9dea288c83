package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// A process is a worker. It ends when its stdin is closed, and so with this process.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func start(c workerConfig) (*process, error) {
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

func (p *process) send(command string) error {
	_, err := io.WriteString(p.stdin, command+"\n")
	return err
}

// receive reads the report about the command that was sent.
func (p *process) receive(r *report) error {
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return err
}

func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
