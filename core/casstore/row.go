package casstore

import (
	"math/rand/v2"

	"github.com/weir-go/weir/core/driver"
)

// A row is the row of a Key in a round.
type row struct {
	Key
	version int64  // 0 if there is no row
	old     []byte // the state that was read
	state   driver.State
	rule    *driver.Compiled // that changed the state last; nil if none has
	fenced  bool             // gets another version in any case
	shared  bool             // it is an overflow row
	barred  bool             // there is no row, and no room for another one

	group *row // rows that depend on each other have the same root; itself for a root
	done  bool // of a root: the rows are as decided
}

// root returns the row that stands for the group of w.
func (w *row) root() *row {
	for w.group != w {
		w.group = w.group.group
		w = w.group
	}
	return w
}

// load returns the state of w for c. Nothing rolls over from the state of other keys.
func (w *row) load(c *driver.Charge, now int64) driver.State {
	if w.shared && c.Rule.Rollover > 0 && (&driver.Charge{Rule: c.Rule, Cost: 1}).Read(w.state, now).Count == 0 {
		return driver.State{}
	}
	return w.state
}

// store sets the state of w, which rule has changed if changed is true.
func (w *row) store(s driver.State, rule *driver.Compiled, changed bool) {
	if w.state = s; changed {
		w.rule = rule
	}
}

// change returns the change of w, and whether there is one.
func (w *row) change() (c Change, ok bool) {
	if w.rule == nil {
		return c, false
	}
	state, _ := w.state.MarshalBinary()
	if string(state) == string(w.old) && !w.fenced {
		return c, false
	}
	return Change{Key: w.Key, Version: w.version, Next: nextVersion(w.version), State: state, Expires: w.rule.ExpiresAt(w.state)}, true
}

// nextVersion returns a version after v. The first one is random: a row that was deleted and made again has another one.
func nextVersion(v int64) int64 {
	if v <= 0 || v == 1<<63-1 {
		return 1 + rand.Int64N(1<<62)
	}
	return v + 1
}
