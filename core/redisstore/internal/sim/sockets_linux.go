package sim

import (
	"sync"
	"syscall"
)

// go-redis looks at the socket of an idle connection before it uses it. sockets are one that is open and one
// of which the other side is closed.
var sockets = sync.OnceValue(func() (fds [2]int) {
	for i := range fds {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			panic(err)
		}
		if fds[i] = pair[0]; i == 1 {
			_ = syscall.Close(pair[1])
		}
	}
	return fds
})
