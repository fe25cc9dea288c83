package redistest

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// A process is a running redis-server.
type process struct {
	pid   int
	stdin io.Closer     // of the shell: closing it kills the server
	done  chan struct{} // closed when the server has ended
}

// runServer is a shell script that runs a server and kills the server when the shell's standard
// input ends, at the latest with this process. The shell ends with the server. Signals from a
// terminal do not end the shell before the server.
const runServer = `
trap '' INT TERM HUP
exec 3<&0
"$0" "$@" 3<&- </dev/null >>` + logName + ` 2>&1 &
server=$!
echo $server
{ cat <&3 >/dev/null; kill -9 $server; } &
wait $server
kill -9 $!`

const logName = "redis.log"

// spawn runs the redis-server at path in the folder dir.
func spawn(path, dir string, args []string) (*process, error) {
	cmd := exec.Command("sh", append([]string{"-c", runServer, path}, args...)...)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{stdin: stdin, done: make(chan struct{})}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit status of a killed server has no meaning
	}()
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// kill ends the server with SIGKILL, even if it is paused, and returns when it has ended.
func (p *process) kill() {
	_ = p.stdin.Close() // fails only if the server has ended
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
