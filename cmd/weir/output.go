package main

import "io"

// An output is a Writer that remembers its first error, so that no part of a report is lost without an error.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (n int, err error) {
	if o.err != nil {
		return 0, o.err
	}
	n, o.err = o.to.Write(p)
	return n, o.err
}
