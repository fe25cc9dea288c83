package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A process is a server that runs in a folder of its own.
type process struct {
	pid   int
	stdin io.Closer     // of the shell: closing it ends the server
	done  chan struct{} // closed when the server has ended
}

// runServer is a shell script that runs a server, and sends a signal to it when the shell's standard input ends, at the
// latest with this process. The shell ends with the server.
const runServer = `
trap '' INT TERM HUP
signal=$1
shift
exec 3<&0
"$0" "$@" 3<&- </dev/null >>` + logName + ` 2>&1 &
server=$!
echo $server
{ cat <&3 >/dev/null; kill -$signal $server; } &
wait $server
kill -9 $!`

const logName = "server.log"

// spawn runs the program at path in the folder dir, and ends it with a signal.
func spawn(path, dir, signal string, args ...string) (*process, error) {
	cmd := exec.Command("sh", append([]string{"-c", runServer, path, signal}, args...)...)
	cmd.Dir = dir
	if err := leaveRoot(cmd); err != nil {
		return nil, err
	}
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
		p.end()
		return nil, err
	}
	return p, nil
}

// end ends the server as the end of this process would, and returns when it has ended.
func (p *process) end() {
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

// await returns when ready does not return an error, and ends the process if that takes too long.
func (p *process) await(dir string, logged int, ready func() error) error {
	err := Poll(func() error {
		if p.ended() {
			return permanent{errors.New("the server ended while it was starting")}
		}
		return ready()
	})
	if err != nil {
		p.end()
		return fmt.Errorf("%w\n%s", err, lastLines(readLog(dir)[logged:], 15))
	}
	return nil
}

// newFolder returns a new folder that belongs to the user of servers.
func newFolder() (string, error) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err == nil {
		err = giveAway(dir)
	}
	return dir, err
}

func readLog(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, logName)) // fails if nothing is logged yet
	return string(b)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// freePort returns a port below the range from which systems take those of outgoing connections, so that it is also free
// when a stopped server starts again. Another process may take it before the caller listens on it.
func freePort() int {
	for {
		port := 21000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
}
