package localredis

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// busOffset is how much higher the port is on which a node of a Cluster talks to
// the others.
const busOffset = 10000

// freePort finds a free port below the range that systems give to outgoing
// connections: a client that keeps dialing a stopped server must not be given the
// server's own port.
func freePort() (int, error) {
	for range 100 {
		port := 10000 + rand.IntN(1000)
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("no free port from 10000 to 10999")
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
