//go:build unix

package file

import "syscall"

// nonblock is the flag with which opening a named pipe does not wait for a writer.
const nonblock = syscall.O_NONBLOCK
