package memstore

import (
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A step is what the store works out about one charge.
type step struct {
	key   uint64
	shard *shard
	place place

	fits    bool
	moved   bool         // the state has to be written even if nothing is taken
	used    algo.Span    // of a bucket
	reading algo.Reading // of a log
}

// lock locks the shards of steps, in ascending order so that two decisions
// cannot wait for each other, and returns which they are.
func (s *Store) lock(steps []step) []uint64 {
	shards := make([]uint64, 0, 8)
	for i := range steps {
		shards = append(shards, steps[i].key%uint64(len(s.shards)))
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	for _, sh := range shards {
		s.shards[sh].mu.Lock()
	}
	return shards
}

// decide reads every state, and writes them only if all charges fit. The shards
// are locked; the clock is read under the locks, so that it never runs backwards
// from one decision about a key to the next.
func (s *Store) decide(charges []core.Charge, steps []step) {
	now := s.now()
	admitted := true
	for i := range steps {
		steps[i].read(&charges[i], now)
		admitted = admitted && steps[i].fits
	}
	for i := range steps {
		c := &charges[i]
		steps[i].write(c, now, admitted && c.Op == core.Spend)
	}
}

func (st *step) read(c *core.Charge, now int64) {
	p, cost := c.Rule.Program(), int64(c.Cost)
	switch p.Kind {
	case algo.KindTokenBucket:
		if found := st.shard.cell(st.place, now); found != nil {
			st.used, st.moved = p.Bucket.Used(found.state(), now)
		}
		st.fits = p.Bucket.Fits(st.used, cost)
	case algo.KindSlidingLog:
		if found := st.shard.log(st.place, now); found != nil {
			st.reading = p.Log.Read(&found.history, now, cost)
			st.moved = found.history.Moved(now)
		}
		st.fits = p.Log.Fits(st.reading, cost)
	}
	if c.Op == core.Reset {
		st.fits = true
	}
}

func (st *step) write(c *core.Charge, now int64, spend bool) {
	p, cost := c.Rule.Program(), int64(c.Cost)
	if c.Op == core.Reset {
		st.forget()
		cost = 1
	}
	switch p.Kind {
	case algo.KindTokenBucket:
		if spend {
			st.shard.setCell(st.place, p.Bucket.Spend(st.used, now, cost), &p.Bucket, now)
		} else if st.moved && c.Op == core.Spend {
			st.shard.setCell(st.place, p.Bucket.At(st.used, now), &p.Bucket, now)
		}
		c.Answer(p.Bucket.Verdict(st.used, cost, spend))
	case algo.KindSlidingLog:
		if spend {
			st.shard.spendLog(st.place, &p.Log, now, cost)
		} else if found := st.shard.log(st.place, now); st.moved && c.Op == core.Spend && found != nil {
			p.Log.Trim(&found.history, now)
		}
		c.Answer(p.Log.Verdict(st.reading, cost, spend))
	}
}

// forget removes the state. A spillway is shared and stays.
func (st *step) forget() {
	st.shard.removeCell(st.place.own)
	st.shard.removeLog(st.place.own)
	st.used, st.reading = algo.Span{}, algo.Reading{}
}
