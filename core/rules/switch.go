package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weir-go/weir/core/internal/processes"
)

// Every is the rule of a [Switch] for all limits.
const Every = processes.Every

// A Switch turns limits off, in each process whose store is that of package resilient. Events are admitted as if the limits
// were [core.Unlimited], without a call of Redis and without fields in the response, and nothing is stored. Blocks of
// operators, plans and rules that are core.Blocked, and pauses stay in force, and so do places that were taken before until
// their events end. A process follows a change within two seconds. While Redis is away, the last switches that it has read are
// in force. If Redis has lost them, all limits are in force again, and each process that had read them logs an error.
type Switch struct {
	Rule   string // the name of a rule, or that of a policy for all its rules, or Every; at most 64 bytes
	By     string // who has turned it off
	Reason string // By and Reason have at most 200 bytes
	Since  time.Time
}

// Has reports whether s turns a rule off.
func (s Switch) Has(rule string) bool { return processes.Switch{Rule: s.Rule}.Has(rule) }

// ErrNotOff is the error of [Fleet.TurnOn] if no switch has the rule.
var ErrNotOff = errors.New("no switch has turned it off")

// Switches returns the limits that are off, the latest first, and the number of changes of them so far.
func (f *Fleet) Switches(ctx context.Context) (off []Switch, changes int, err error) {
	s, err := read(ctx, f, "switches", func(r processes.Record) (processes.Switches, error) { return r.Switches(ctx) })
	return switchesOf(s), s.Change, err
}

func switchesOf(s processes.Switches) (off []Switch) {
	for _, o := range s.Off {
		off = append(off, Switch{o.Rule, o.By, o.Reason, time.UnixMilli(o.Since)})
	}
	slices.SortStableFunc(off, func(a, b Switch) int { return b.Since.Compare(a.Since) })
	return off
}

// TurnOff turns limits off by s, in place of an earlier Switch of the same rule, and returns the number of the change. The
// present time is used if Since is zero. There are at most 64 switches. After an error of Redis, it is not known whether the
// change was made.
func (f *Fleet) TurnOff(ctx context.Context, s Switch) (change int, err error) {
	if s.Since.IsZero() {
		s.Since = time.Now()
	}
	switch {
	case s.Rule == "" || len(s.Rule) > 64 || strings.ContainsFunc(s.Rule, unicode.IsControl):
		return 0, fmt.Errorf("weir: %q is no name of a rule or a policy", s.Rule)
	case len(s.By) > processes.MaxReason || len(s.Reason) > processes.MaxReason:
		return 0, fmt.Errorf("weir: a text of a switch is longer than %d bytes", processes.MaxReason)
	}
	return f.change(ctx, func(off []processes.Switch) []processes.Switch {
		off = slices.DeleteFunc(off, func(o processes.Switch) bool { return o.Rule == s.Rule })
		return append(off, processes.Switch{Rule: s.Rule, By: strings.ToValidUTF8(s.By, "?"), Reason: strings.ToValidUTF8(s.Reason, "?"), Since: s.Since.UnixMilli()})
	})
}

// TurnOn ends the switch of a rule, or all if rule is [Every], and returns the number of the change. The error is an
// ErrNotOff if there is none, or one of Redis.
func (f *Fleet) TurnOn(ctx context.Context, rule string) (change int, err error) {
	off, _, err := f.Switches(ctx)
	if err == nil && !slices.ContainsFunc(off, func(s Switch) bool { return rule == Every || s.Rule == rule }) {
		return 0, fmt.Errorf("weir: %q: %w", rule, ErrNotOff)
	}
	return f.change(ctx, func(off []processes.Switch) []processes.Switch {
		return slices.DeleteFunc(off, func(o processes.Switch) bool { return rule == Every || o.Rule == rule })
	})
}

func (f *Fleet) change(ctx context.Context, change func([]processes.Switch) []processes.Switch) (int, error) {
	s, err := read(ctx, f, "switches", func(r processes.Record) (processes.Switches, error) { return r.Change(ctx, change) })
	return s.Change, err
}
