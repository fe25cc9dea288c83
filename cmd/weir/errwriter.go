package main

import "io"

// An errWriter is a Writer that remembers its first error, so that no part of a report is lost without an error.
type errWriter struct {
	to  io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (n int, err error) {
	if w.err != nil {
		return 0, w.err
	}
	n, w.err = w.to.Write(p)
	return n, w.err
}
