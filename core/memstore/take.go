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

	cell    *cell // what was found; good until another entry of the shard is stored
	fits    bool
	taken   bool
	moved   bool         // the state has to be written even if nothing is taken
	used    algo.Span    // of a bucket
	count   int64        // of a fixed window
	left    int64        // of a fixed window
	reading algo.Reading // of a log
}

// aim finds out where the state of c is. key is the hash of its key.
func (st *step) aim(s *Store, c *core.Charge, key uint64) {
	st.key = key
	st.shard = &s.shards[s.shardOf(key)]
	st.place = newPlace(key, c.Rule.ID())
}

// forward is now, or the time of the shard's last decision if that is later. The
// clock is read before the lock is taken, so that nobody waits for it; this
// keeps it from running backwards from one decision about a key to the next.
func (sh *shard) forward(now int64) int64 {
	sh.last = max(sh.last, now)
	return sh.last
}

// takeOne is Take for what is asked most: one charge, one lock.
func (s *Store) takeOne(c *core.Charge) {
	var st step
	st.aim(s, c, s.hash(c.Key))
	now := s.now()
	st.shard.mu.Lock()
	if s.clock == nil {
		now = st.shard.forward(now)
	}
	st.read(c, now)
	st.conclude(c, now, true)
	st.shard.mu.Unlock()
	st.answer(c)
}

// decideLocked decides under the locks of all shards that it needs. They are
// taken in ascending order, so that two decisions cannot wait for each other.
func (s *Store) decideLocked(charges []core.Charge, steps []step) {
	now := s.now()
	var room [4]uint64
	shards := room[:0]
	for i := range steps {
		shards = append(shards, s.shardOf(steps[i].key))
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	for _, i := range shards {
		s.shards[i].mu.Lock()
	}
	s.decide(charges, steps, now)
	for _, i := range shards {
		s.shards[i].mu.Unlock()
	}
}

// decide reads every state, and writes them if all charges fit that count. The
// shards are locked.
func (s *Store) decide(charges []core.Charge, steps []step, now int64) {
	if s.clock == nil {
		for i := range steps {
			now = steps[i].shard.forward(now)
		}
		for i := range steps {
			steps[i].shard.last = now
		}
	}
	admitted := true
	for i := range steps {
		steps[i].read(&charges[i], now)
		admitted = admitted && (steps[i].fits || charges[i].Rule.IsShadow())
	}
	for i := range steps {
		steps[i].cell = nil
		steps[i].conclude(&charges[i], now, admitted)
	}
}

// conclude applies the decision to the state of c. A Spend or Peek that is denied writes
// back a state that lies too far ahead: a caller that only peeks would be denied until the
// clock caught up.
func (st *step) conclude(c *core.Charge, now int64, admitted bool) {
	switch {
	case !c.Op.Asks():
		st.tell(c, now)
	case admitted && st.fits:
		if st.taken = c.Op == core.Spend; st.taken {
			st.spend(c, now)
		}
	case st.moved:
		st.move(c, now)
	}
}

func (st *step) read(c *core.Charge, now int64) {
	p, cost, sh := c.Rule.Program(), c.Asked(), st.shard
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		var level algo.Level
		level, st.cell = sh.bucket(st.place, now)
		st.used, st.moved = p.Bucket.Used(level, now)
		st.fits = p.Bucket.Fits(st.used, cost, c.Patience())
	case algo.KindFixedWindow:
		st.left = p.Window.Left(now)
		if found := find(sh, &sh.tallies, st.place, now); found != nil {
			st.count, st.moved = p.Window.Used(found.state, now)
		}
		st.fits = p.Window.Fits(st.count, cost)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		var history algo.History
		if found := find(sh, &sh.logs, st.place, now); found != nil {
			history, st.moved = found.history, p.Log.Moved(&found.history, now)
		}
		st.reading = p.Log.Read(&history, now, cost)
		st.fits = p.Log.Fits(st.reading, cost)
	default:
		panic(p.Kind.Unknown())
	}
	st.fits = st.fits || !c.Op.Asks()
}

// spend takes the cost.
func (st *step) spend(c *core.Charge, now int64) {
	switch p, cost := c.Rule.Program(), int64(c.Cost); p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		if st.shard.spilled {
			st.read(c, now) // another charge of the decision may share the spillway
		}
		st.receipt(c, now)
		level := p.Bucket.Spend(st.used, now, cost)
		if st.cell != nil {
			st.cell.set(level.Until, tolerance(&p.Bucket))
		} else {
			st.shard.setBucket(st.place, level, &p.Bucket, now)
		}
	case algo.KindFixedWindow:
		if st.shard.spilled {
			st.read(c, now)
		}
		st.receipt(c, now)
		st.shard.setWindow(st.place, p.Window.At(st.count+cost, now), &p.Window, now)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		st.receipt(c, now)
		st.shard.changeLog(st.place, &p.Log, now, func(h *algo.History) { p.Log.Spend(h, now, cost) })
	default:
		panic(p.Kind.Unknown())
	}
}

// move writes back a state that the clock has left behind.
func (st *step) move(c *core.Charge, now int64) {
	switch p := c.Rule.Program(); p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		st.shard.setBucket(st.place, p.Bucket.At(st.used, now), &p.Bucket, now)
	case algo.KindFixedWindow:
		st.shard.setWindow(st.place, p.Window.At(st.count, now), &p.Window, now)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		if found := find(st.shard, &st.shard.logs, st.place, now); found != nil {
			st.shard.change(st.place, found, now, func(h *algo.History) { p.Log.Trim(h, now) })
		}
	default:
		panic(p.Kind.Unknown())
	}
}

// receipt notes what an Undo has to know, before anything is taken.
func (st *step) receipt(c *core.Charge, now int64) {
	if c.Receipt != nil {
		*c.Receipt = core.Receipt{At: now, Used: st.used}
	}
}

// answer fills in the State. It needs no lock.
func (st *step) answer(c *core.Charge) {
	cost := c.Asked()
	var v algo.Verdict
	switch p := c.Rule.Program(); p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		v = p.Bucket.Verdict(st.used, cost, c.Patience(), st.taken)
	case algo.KindFixedWindow:
		v = p.Window.Verdict(st.count, st.left, cost, st.taken)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		v = p.Log.Verdict(st.reading, cost, st.taken)
	default:
		panic(p.Kind.Unknown())
	}
	c.Answer(v, st.taken)
}
