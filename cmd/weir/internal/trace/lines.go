package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync/atomic"
)

// maxLine is the maximum length of a line in bytes, without its end.
const maxLine = 1 << 20

// maxBuffered is the size of the buffer of a file. Most lines are read without a copy.
const maxBuffered = 64 << 10

// A lineReader reads the lines of a file, plain or compressed.
type lineReader struct {
	in   *bufio.Reader
	long []byte // a line that is longer than the buffer of in
}

// newLineReader returns the reader of the lines of a file. It adds the bytes that it reads to read.
func newLineReader(file io.Reader, read *atomic.Int64) (*lineReader, error) {
	in := bufio.NewReaderSize(&countingReader{file, read}, maxBuffered)
	magic, err := in.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(magic) == "\x1f\x8b" {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(plain, maxBuffered)
	}
	mark, err := in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(mark) == "\xef\xbb\xbf" { // the byte order mark of UTF-8
		_, _ = in.Discard(len(mark))
	}
	return &lineReader{in: in}, nil
}

// next returns the next line without its end, valid until the next call. long reports whether it was
// longer than maxLine; then line is its beginning. The error is io.EOF after the last line.
func (l *lineReader) next() (line []byte, long bool, err error) {
	line, err = l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long) <= maxLine {
				l.long = append(l.long, line...)
			}
			// A file that was truncated while a server wrote into it, as by logrotate with copytruncate, begins
			// with as many NULs as it was long.
			if len(bytes.TrimLeft(l.long, "\x00")) == 0 {
				l.long = l.long[:1]
			}
			line, err = l.in.ReadSlice('\n')
		}
		line = append(l.long, line...)
		l.long = line
	}
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	return line, len(line) > maxLine, err
}

// A countingReader adds the number of bytes that are read from it to read.
type countingReader struct {
	io.Reader
	read *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}
