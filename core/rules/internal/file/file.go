// Package file reads files that other programs write.
package file

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

// Read returns the content of a file, or the beginning of one that is larger than size. A named pipe could
// block for ever, so anything but a regular file is an error.
func Read(path string, size int64) ([]byte, error) {
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
	return io.ReadAll(io.LimitReader(f, size))
}

const (
	rereadInterval = 100 * time.Millisecond
	maxRereads     = 10
)

var errUnstable = errors.New("the file changes every 100 ms")

// A File waits until a change of its content is complete: see rules.File. It is safe for concurrent use.
type File struct {
	path string
	read func() ([]byte, error)

	mu   sync.Mutex
	last []byte // the result of the last Load; nil if there is none
}

// New returns a File that is read by read. path is its name in errors.
func New(path string, read func() ([]byte, error)) *File { return &File{path: path, read: read} }

// String returns the path.
func (f *File) String() string { return f.path }

// Load returns the content. After a change, it reads until two results are equal.
func (f *File) Load(ctx context.Context) ([]byte, error) {
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
