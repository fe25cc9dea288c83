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

// AllLimits is the rule of a [Switch] for all limits.
const AllLimits = processes.AllLimits

// A Switch turns limits off, in each process whose store is that of package resilient. Events are admitted as if the limits
// were [core.Unlimited], without a call of Redis and without fields in the response, and nothing is stored. Blocks of
// operators, plans and rules that are core.Blocked, and pauses stay in force, and so do places that were taken before until
// their events end. A process follows a change within two seconds. While Redis is away, the last switches that it has read are
// in force. If Redis has lost them, all limits are in force again, and each process that had read them logs an error.
type Switch struct {
	Rule   string    // the name of a rule, or that of a policy for all its rules, or AllLimits; at most 64 bytes
	By     string    // who has turned it off
	Reason string    // By and Reason have at most 200 bytes, without control characters
	Since  time.Time // by the clock of Redis, which TurnOff and TurnOn set
}

// Has reports whether s turns a rule off.
func (s Switch) Has(rule string) bool { return processes.Switch{Rule: s.Rule}.Has(rule) }

// ErrRecord is the error of a part of the record of the processes in Redis that is not well formed.
var ErrRecord = processes.ErrRecord

// ErrNotOff is the error of [Fleet.TurnOn] if no switch has the rule.
var ErrNotOff = errors.New("no switch has turned it off")

// Switches are the limits of an application that are off.
type Switches struct {
	Off    []Switch // the latest first
	On     Switch   // the last change that has turned limits on; zero if there was none
	Change int64    // identifies the last change: later ones are larger. See [Process.SwitchChange]
}

// Switches returns the limits that are off.
func (f *Fleet) Switches(ctx context.Context) (Switches, error) {
	s, err := read(ctx, f, "switches", func(r processes.Record) (processes.Switches, error) { return r.Switches(ctx) })
	return switchesOf(s), err
}

func switchesOf(s processes.Switches) Switches {
	all := Switches{Change: s.Change}
	for _, o := range s.Off {
		all.Off = append(all.Off, switchOf(o))
	}
	slices.SortStableFunc(all.Off, func(a, b Switch) int { return b.Since.Compare(a.Since) })
	if s.On != nil {
		all.On = switchOf(*s.On)
	}
	return all
}

func switchOf(s processes.Switch) Switch {
	return Switch{s.Rule, s.By, s.Reason, time.UnixMilli(s.Since)}
}

// TurnOff turns limits off by s, in place of an earlier Switch of the same rule. The error is one of Redis, or says
// that there are more than 64 switches, or that s is invalid. After an error of Redis, it is not known whether the change was made.
func (f *Fleet) TurnOff(ctx context.Context, s Switch) (Switches, error) {
	return f.change(ctx, s, func(all *processes.Switches, s processes.Switch) {
		all.Off = append(slices.DeleteFunc(all.Off, func(o processes.Switch) bool { return o.Rule == s.Rule }), s)
	})
}

// TurnOn ends the switch of the rule of s, or all if that is [AllLimits]; the other fields say who has done it. The error is an
// ErrNotOff if there is none, or one of Redis, as of TurnOff.
func (f *Fleet) TurnOn(ctx context.Context, s Switch) (Switches, error) {
	now, err := f.Switches(ctx)
	if err == nil && !slices.ContainsFunc(now.Off, func(o Switch) bool { return s.Rule == AllLimits || s.Rule == o.Rule }) {
		return now, fmt.Errorf("weir: %q: %w", s.Rule, ErrNotOff)
	}
	return f.change(ctx, s, func(all *processes.Switches, s processes.Switch) {
		all.Off = slices.DeleteFunc(all.Off, func(o processes.Switch) bool { return s.Rule == AllLimits || o.Rule == s.Rule })
		all.On = &s
	})
}

func (f *Fleet) change(ctx context.Context, s Switch, change func(*processes.Switches, processes.Switch)) (Switches, error) {
	switch {
	case s.Rule == "" || len(s.Rule) > 64 || strings.ContainsFunc(s.Rule, unicode.IsControl):
		return Switches{}, fmt.Errorf("weir: %q is no name of a rule or a policy", s.Rule)
	case len(s.By) > processes.MaxReason || len(s.Reason) > processes.MaxReason || strings.ContainsFunc(s.By+s.Reason, unicode.IsControl):
		return Switches{}, fmt.Errorf("weir: a text of a switch is longer than %d bytes, or has a control character", processes.MaxReason)
	}
	of := processes.Switch{Rule: s.Rule, By: strings.ToValidUTF8(s.By, "?"), Reason: strings.ToValidUTF8(s.Reason, "?")}
	all, err := read(ctx, f, "switches", func(r processes.Record) (processes.Switches, error) {
		return r.Change(ctx, func(all *processes.Switches, now int64) {
			of.Since = now
			change(all, of)
		})
	})
	return switchesOf(all), err
}
