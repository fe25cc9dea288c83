//go:build !unix

package file

// nonblock is zero on systems without named pipes among their files.
const nonblock = 0
