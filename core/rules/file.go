package rules

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// File returns a [Source] that reads a file. [Set.Watch] notices a changed file by its bytes, also
// if it is replaced by another file, behind a symbolic link as Kubernetes mounts a ConfigMap, or on
// a network file system.
//
// A program may write a file in several steps. After a change, Load therefore reads the file again
// every 100 ms until two results are equal, for at most a second. The first call reads it once.
//
// Load returns an error for anything but a regular file, such as a named pipe or a device.
func File(path string) Source {
	return &file{path: path, read: func() ([]byte, error) { return readFile(path) }}
}

// readFile returns the content of a file, or the beginning of one that is larger than MaxSize. A
// named pipe could block for ever, so anything but a regular file is an error.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1)) // Parse rejects it
}

const (
	rereadInterval = 100 * time.Millisecond
	maxRereads     = 10
)

var errUnstable = errors.New("the file changes every 100 ms")

type file struct {
	path string
	read func() ([]byte, error)

	mu   sync.Mutex
	last []byte // the result of the last Load; nil if there is none
}

func (f *file) String() string { return f.path }

func (f *file) Load(ctx context.Context) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.read()
	switch {
	case f.last == nil && err != nil:
		return nil, err
	case f.last == nil, err == nil && bytes.Equal(text, f.last):
		f.last = text
		return text, nil
	}
	for range maxRereads {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rereadInterval):
		}
		before, failed := text, err
		if text, err = f.read(); err == nil && failed == nil && bytes.Equal(text, before) {
			f.last = text
			return text, nil
		} else if err != nil && failed != nil {
			return nil, err
		}
	}
	return nil, errUnstable
}
