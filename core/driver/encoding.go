package driver

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// The zero State is encoded as no bytes. Any other State has one encoding, a version followed by
// unsigned varints: for a bucket or fixed window, its time, amount and debt; for each run of a log, the
// time since the previous run and the number of events; for each place, the time since the previous
// renewal and the number of the place. If callers wait for places, there is another version, then the number of their
// queues and, for each, the time since the previous arrival, its number, the end of its hold, and its limit and cost. For a quota with a rollover, there is
// another version, then the rest, and the words.
const (
	wordsEncoding  = 1
	logEncoding    = 2
	placesEncoding = 3
	queuesEncoding = 4
	rollsEncoding  = 5
)

// maxTime is the latest time in a State: the latest time of a clock plus the longest limit.
const maxTime = 1<<53 - 1 + horizon

var errCorrupt = errors.New("weir: corrupt state")

// AppendBinary implements encoding.BinaryAppender. The zero State has no bytes. The error is nil.
func (s State) AppendBinary(b []byte) ([]byte, error) {
	if s == (State{}) {
		return b, nil
	}
	if s.log == nil || s.rolls() {
		if s.rolls() {
			b, s.Time = binary.AppendUvarint(append(b, rollsEncoding), uint64(s.rest())), -s.Time
		} else {
			b = append(b, wordsEncoding)
		}
		for _, n := range [...]int64{s.Time, s.Amount, s.Debt} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		return b, nil
	}
	h, last := s.history(), int64(0)
	runs := h.live()
	queues, places := parts(s)
	switch {
	case s.Time >= 0:
		b = append(b, logEncoding)
	case len(queues) == 0:
		b, runs = append(b, placesEncoding), places
	default:
		b, runs = binary.AppendUvarint(append(b, queuesEncoding), uint64(s.Debt)), places
		for pair := range slices.Chunk(queues, 2) {
			for _, n := range [...]int64{pair[0].at - last, pair[0].n, pair[1].at, pair[1].n} {
				b = binary.AppendUvarint(b, uint64(n))
			}
			last = pair[0].at
		}
		last = 0
	}
	for _, r := range runs {
		b = binary.AppendUvarint(b, uint64(r.at-last))
		b = binary.AppendUvarint(b, uint64(r.n))
		last = r.at
	}
	return b, nil
}

// MarshalBinary implements encoding.BinaryMarshaler. The error is always nil.
func (s State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. If b is not the encoding of a State that a
// rule could have written, it returns an error and leaves s unchanged. The Store must
// then use the zero State or return an error. b need not be trusted: no op on a decoded State
// panics or overflows. UnmarshalBinary does not keep b.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*s = State{}
		return nil
	}
	d, next := decoder{rest: b[1:]}, State{}
	switch b[0] {
	case wordsEncoding:
		next = d.words()
	case rollsEncoding:
		rest := d.number(maxCount)
		next = d.words()
		d.failed = d.failed || next.Time <= -placesMark
		next = next.rolling(State{}, rest)
	case logEncoding:
		next = d.log()
	case placesEncoding:
		next = d.places()
	case queuesEncoding:
		next = d.queues()
	}
	if d.failed || next == (State{}) {
		return errCorrupt
	}
	*s = next
	return nil
}

type decoder struct {
	rest   []byte
	failed bool
}

// number reads a number of at most limit, which must have its shortest encoding.
func (d *decoder) number(limit int64) int64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || size > 1 && d.rest[size-1] == 0 || n > uint64(limit) {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int64(n)
}

func (d *decoder) words() State {
	s := State{Time: d.number(maxTime), Amount: d.number(maxCount), Debt: d.number(maxTime)}
	if len(d.rest) > 0 {
		d.failed = true
	}
	owed := Span{s.Time - s.Debt, s.Amount} // or the length of a period, and its events
	if s.Debt != 0 && (owed.Micros < 0 || owed == (Span{}) || owed.Micros > horizon) {
		d.failed = true
	}
	return s
}

func (d *decoder) log() State {
	var h history
	for at := int64(0); len(d.rest) > 0; {
		step, n := d.number(maxTime-at), d.number(maxCount-h.count)
		if n == 0 || step == 0 && h.count > 0 {
			d.failed = true
			break
		}
		at += step
		h.add(at, n)
	}
	return h.state(State{})
}

func (d *decoder) queues() State {
	var all []queued
	n, came := d.number(maxQueues), int64(0)
	for range n {
		came += d.number(maxTime - came)
		q := queuedOf([]run{{came, d.number(maxQueue)}, {d.number(maxTime), d.number(math.MaxInt64)}})
		known := slices.ContainsFunc(all, func(o queued) bool { return o.queue == q.queue })
		if d.failed = d.failed || known || q.queue == 0 || q.cost == 0; d.failed {
			break
		}
		all = append(all, q)
	}
	if d.failed = d.failed || n == 0; d.failed || !slices.IsSortedFunc(all, queued.compare) {
		d.failed = true
		return State{}
	}
	return putQueues(d.places(), all)
}

func (d *decoder) places() State {
	var taken []run
	for at := int64(0); len(d.rest) > 0; {
		at += d.number(maxTime - at)
		number := d.number(math.MaxInt64) // with its cost
		if number == 0 || len(taken) == maxPlaces || hasNumber(taken, number) {
			d.failed = true
			break
		}
		taken = append(taken, run{at, number})
	}
	return putPlaces(State{}, taken)
}
