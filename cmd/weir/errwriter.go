package main

import "io"

// An errWriter is the Writer of all output. It writes escapes in place of characters that control a terminal, and
// remembers its first error, so that no part of a report is lost without an error.
type errWriter struct {
	to  io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, printable(string(p), true))
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}
