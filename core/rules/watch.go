package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core/rules/internal/file"
)

// A Source provides the text of a configuration, for example from a file ([File]) or a row of a
// database. If it has a method String, the result is the name of the source in errors.
type Source interface {
	// Load returns the present text, which the caller does not change. One Watch makes one call at a
	// time. An error means that there is no text, or that it could not be read.
	Load(ctx context.Context) ([]byte, error)
}

// Load reads the configuration of a source, for [New]. Errors in the text are those of [Parse].
func Load(ctx context.Context, s Source) (*Config, error) {
	text, err := s.Load(ctx)
	if err != nil {
		return nil, unreadable(s, err)
	}
	return Parse(nameOf(s), text)
}

// File returns a [Source] that reads a file. [Set.Watch] notices a changed file by its bytes, also
// if it is replaced by another file, behind a symbolic link as Kubernetes mounts a ConfigMap, or on
// a network file system.
//
// A program may write a file in several steps. After a change, Load therefore reads the file again
// every 100 ms until two results are equal, for at most a second. The first call reads it once.
//
// Load returns an error for anything but a regular file, such as a named pipe or a device.
func File(path string) Source {
	return file.New(path, func() ([]byte, error) { return file.Read(path, MaxSize+1) }) // Parse rejects a larger one
}

// WatchInterval is the time between two calls of [Source.Load] by [Set.Watch].
const WatchInterval = time.Second

// Watch applies the configuration of source now, and again when its text has changed, until ctx
// ends. It asks the source every [WatchInterval]. Watch returns the error of ctx.
//
// If the source returns an error, or a text that is invalid or empty or that [Set.Apply] rejects,
// the last good configuration stays in force. Watch reports the error once (see [OnError]): an
// error of the source again after a success, and a rejected text when it has changed. It does not
// try a rejected text again.
//
// Watch also reads the changes of the overrides of the option [Overrides], every WatchInterval, and tells in the heartbeats
// of the process which of them are in force (see [RedisSource.Processes]).
func (s *Set) Watch(ctx context.Context, source Source) error {
	if s.source != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
		defer s.begin()()
		wg.Go(func() { s.source.watch(ctx) })
	}
	w := watcher{set: s, source: source}
	every(ctx, WatchInterval, func() { w.poll(ctx) })
	return ctx.Err()
}

// every calls f at once, and again after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// A watcher is the state of one call of Watch.
type watcher struct {
	set    *Set
	source Source
	text   []byte // the latest one, good or bad; nil before the first one
	failed string // the cause of the last error of the source; empty after a success
}

// poll asks the source once.
func (w *watcher) poll(ctx context.Context) {
	text, err := w.source.Load(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if cause := causeOf(err).Error(); cause != w.failed {
			w.failed = cause
			w.set.report(notApplied, unreadable(w.source, err))
		}
		return
	}
	w.failed = ""
	if w.text != nil && bytes.Equal(text, w.text) {
		return
	}
	w.text = append([]byte{}, text...)
	c, err := Parse(nameOf(w.source), text)
	if err == nil {
		err = w.set.Apply(c)
	}
	if err != nil {
		w.set.report(notApplied, err)
	}
}

// causeOf returns the innermost error of err. The texts of outer errors may differ at each attempt:
// those of package net contain the port of the connection.
func causeOf(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func unreadable(s Source, err error) error {
	return fmt.Errorf("weir: configuration of %s: %w", nameOf(s), err)
}

func nameOf(s Source) string {
	if named, ok := s.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", s)
}
