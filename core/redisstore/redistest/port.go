package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are below the range from which systems take the ports of outgoing connections (from 32768
// on Linux). Within that range, a client that dials a stopped server can get the server's port as
// its source and connect to itself, and the server cannot start again. The bus port of a Cluster
// node is busOffset higher and below that range, too.
const (
	firstPort = 11000
	lastPort  = 20999
	busOffset = 10000
)

// reserved holds the ports of this process, including those of stopped servers.
var reserved = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// reservePort finds a port that is free together with its bus port. Another process may take it
// before the caller listens on it.
func reservePort() (int, error) {
	const tries = 200
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		reserved.Lock()
		taken := reserved.ports[port]
		reserved.ports[port] = true
		reserved.Unlock()
		if taken {
			continue
		}
		if free(port) && free(port+busOffset) {
			return port, nil
		}
		releasePort(port)
	}
	return 0, errors.New("no free port found")
}

func releasePort(port int) {
	reserved.Lock()
	delete(reserved.ports, port)
	reserved.Unlock()
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
