package trace

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A Reader reads files with recorded traffic. Only Stats may be called while another goroutine reads.
type Reader struct {
	options Options
	read    atomic.Int64

	mu         sync.Mutex
	stats      Stats
	candidates candidates // for Stats.Conversion
	err        error
}

// New returns a reader with these options.
func New(o Options) *Reader {
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	return &Reader{options: o}
}

// Files returns the events of the files, merged by their times, in whatever order the files are
// given. A file "-" is the standard input.
//
// An event is yielded after an event was read that is 60 seconds newer, so that events of 60 seconds
// are in memory, but at most 524 288 of them. Among these, events are sorted. An event that is older than the event yielded
// before gets the time of that event and is counted as late. A line without a valid event is counted
// as broken. A key, a plan or a request of more than 1024 bytes is its beginning and a hash.
//
// The traffic ends before the last event if a file cannot be opened or read: see [Reader.Err]. It can
// be read again, except for pipes and the standard input.
func (r *Reader) Files(files []string) simulate.Traffic {
	return func(yield func(*simulate.Event) bool) {
		r.reset()
		if err := r.merge(files, yield); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
		}
	}
}

// Err returns the error that has ended the traffic, or nil: a file could not be opened or read, or
// has no field with a name of the [Fields].
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Stats returns the statistics of the traffic that is being read or was read last.
func (r *Reader) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Samples = slices.Clone(s.Samples)
	s.Read = r.read.Load()
	return s
}

// broken counts the line that s has read.
func (r *Reader) broken(s *source, line []byte, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The first lines can be those of another program, which tell less than the next ones.
	if c := r.stats.Conversion; r.stats.Events == 0 && r.stats.Broken < maxSamples && (c == "" || c == describe || c == nameKey || r.candidates.flags) {
		r.stats.Conversion = r.candidates.conversion(s, line, reason, r.options.Format != Auto)
	}
	r.stats.broken(s.name, s.number, line, reason)
}

func (r *Reader) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats, r.candidates, r.err = Stats{}, candidates{}, nil
	r.read.Store(0)
}

// merge yields the events of the files.
func (r *Reader) merge(files []string, yield func(*simulate.Event) bool) error {
	opened, total, err := r.open(files)
	defer func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.stats.Total = total
	r.mu.Unlock()

	var sources sources
	for i, file := range opened {
		s := &source{reader: r, name: files[i], position: i, build: newBuilder(r.options.Fields.Key), recognizer: recognizer{options: r.options}}
		if s.lines, err = newLineReader(file, &r.read); err != nil {
			return fileError(s.name, err)
		}
		if ok, err := s.next(); err != nil {
			return fileError(s.name, err)
		} else if ok {
			sources = append(sources, s)
		}
	}
	heap.Init(&sources)
	var sorted order
	for len(sources) > 0 {
		s := sources[0]
		sorted.push(&s.event)
		if ok, err := s.next(); err != nil {
			return fileError(s.name, err)
		} else if ok {
			heap.Fix(&sources, 0)
		} else {
			heap.Pop(&sources)
		}
		if !r.yield(&sorted, len(sources) == 0, yield) {
			return nil
		}
	}
	return nil
}

// yield yields the events that no older one can follow. It returns false to stop.
func (r *Reader) yield(sorted *order, ended bool, yield func(*simulate.Event) bool) bool {
	for {
		e, late := sorted.pop(ended)
		if e == nil {
			return true
		}
		r.mu.Lock()
		r.stats.yielded(e, late)
		r.mu.Unlock()
		if !yield(e) {
			return false
		}
	}
}

// open opens the files and returns their total length, or 0 if a length is unknown. The caller must
// close the files also after an error.
func (r *Reader) open(files []string) (opened []io.ReadCloser, total int64, err error) {
	known, stdin := true, false
	for _, name := range files {
		file := io.NopCloser(r.options.Stdin)
		if name == "-" {
			if stdin {
				return opened, 0, errors.New("the standard input is named twice")
			}
			stdin, known = true, false
		} else {
			f, err := os.Open(name)
			if err != nil {
				return opened, 0, err
			}
			file = f
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				total += info.Size()
			} else {
				known = false
			}
		}
		opened = append(opened, file)
	}
	if !known {
		total = 0
	}
	return opened, total, nil
}

// fileError adds the name of a file to an error that does not have it.
func fileError(name string, err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
