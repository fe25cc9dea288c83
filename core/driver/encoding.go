package driver

import (
	"encoding/binary"
	"math"
)

// The encoding of a State: nothing for the zero State; else a version, then integers as
// unsigned varints: the time, amount and debt, or for each run of a log the time since the
// run before and the number of events.
const (
	wordsEncoding = 1
	logEncoding   = 2
)

// maxTime bounds the times of a State that was decoded.
const maxTime = 1 << 53

// IsZero says whether s is the State of a key of which nothing is used, which need not be
// stored. Use [Compiled.ExpiresAt] to find one that means as little.
func (s State) IsZero() bool { return s == State{} || s.log != nil && len(*s.log) == int(s.time) }

// AppendBinary implements encoding.BinaryAppender. The error is always nil.
func (s State) AppendBinary(b []byte) ([]byte, error) {
	if s.IsZero() {
		return b, nil
	}
	if s.log == nil {
		b = append(b, wordsEncoding)
		for _, n := range [...]int64{s.time, s.amount, s.debt} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		return b, nil
	}
	b = append(b, logEncoding)
	h, last := s.history(), int64(0)
	for _, r := range h.live() {
		b = binary.AppendUvarint(b, uint64(r.at-last))
		b = binary.AppendUvarint(b, uint64(r.n))
		last = r.at
	}
	return b, nil
}

// MarshalBinary implements encoding.BinaryMarshaler. The error is always nil.
func (s State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. Bytes that MarshalBinary did not
// write are an [ErrCorruptState], or the State of which they are the encoding; s is unchanged
// on an error.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*s = State{}
		return nil
	}
	d, next := decoder{rest: b[1:]}, State{}
	switch b[0] {
	case wordsEncoding:
		next = State{time: d.number(maxTime), amount: d.number(maxCount), debt: d.number(maxTime)}
		d.failed = d.failed || len(d.rest) > 0
	case logEncoding:
		next = d.log()
	default:
		d.failed = true
	}
	if d.failed {
		return ErrCorruptState
	}
	*s = next
	return nil
}

// A decoder reads numbers.
type decoder struct {
	rest   []byte
	failed bool
}

// number reads a number, which is at most limit.
func (d *decoder) number(limit int64) int64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(limit) || d.failed {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int64(n)
}

// log reads the runs of a log.
func (d *decoder) log() State {
	var h history
	for at := int64(0); len(d.rest) > 0; {
		step, n := d.number(maxTime), d.number(math.MaxInt64-h.count)
		if at += step; at > maxTime || n == 0 || step == 0 && h.count > 0 {
			d.failed = true
			return State{}
		}
		h.add(at, n)
	}
	return h.state(State{})
}
