package rules

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
)

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
// Watch also reads the changes of the overrides of the option [Overrides], every WatchInterval.
func (s *Set) Watch(ctx context.Context, source Source) error {
	if s.source != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
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
			w.report(unreadable(w.source, err))
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
		w.report(err)
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

func (w *watcher) report(err error) {
	w.set.report("weir: the configuration is not applied; the last good one stays in force", err)
}
