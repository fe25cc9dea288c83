package processes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// lookTime is the time between two looks at the switches, on average.
	lookTime = 1250 * time.Millisecond
	// MaxSwitches is the number of switches of an application, and MaxReason the length of their texts.
	MaxSwitches, MaxReason = 64, 200
	// maxSwitches is the length of their JSON.
	maxSwitches = 64 << 10
	// AllLimits is the rule of a switch for all limits.
	AllLimits = "*"
)

// A Switch turns limits off.
type Switch struct {
	Rule   string `json:"rule"` // its name, or the beginning of it before a dot, or AllLimits
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Since  int64  `json:"since"` // Unix milliseconds, by the clock of Redis
}

// Switches are the limits that are off.
type Switches struct {
	Begun  int64    `json:"begun"`  // the first Change: another one tells that Redis has lost the switches
	Change int64    `json:"change"` // the time of the latest change, in Unix milliseconds by the clock of Redis, or later: it only grows
	Off    []Switch `json:"off,omitempty"`
	On     *Switch  `json:"on,omitempty"` // the last change that turned limits on
}

// Has reports whether s turns a rule off.
func (s Switch) Has(rule string) bool {
	beginning, ok := strings.CutPrefix(rule, s.Rule)
	return s.Rule == AllLimits || ok && (beginning == "" || beginning[0] == '.')
}

// isOff reports whether a rule is off.
func (s *Switches) isOff(rule string) bool {
	return slices.ContainsFunc(s.Off, func(o Switch) bool { return o.Has(rule) })
}

// names returns the rules of s.
func (s *Switches) names() (all []string) {
	for _, o := range s.Off {
		all = append(all, o.Rule)
	}
	return all
}

// switches is a hash with one field. A script may write only a key of the documented permissions.
func (r Record) switches() string { return r.Keys + ":switches" }

const switchField = "all"

// changeScript is the script that writes the switches unless another operator has changed them since they were read.
var changeScript = newScript(`if string.sub(redis.call('HMGET', KEYS[1], ARGV[1])[1] or '', 1, MAX_SWITCHES + 1) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`)

// Switches returns the switches of the application. The error is an ErrRecord if they are not well formed.
func (r Record) Switches(ctx context.Context) (s Switches, err error) {
	_, s, err = r.readSwitches(ctx)
	return s, err
}

// SwitchScript is the script that returns the text of the switches, without its end if it is too long. A client may send a command
// to a replica, and never a script.
var SwitchScript = newScript(`return string.sub(redis.call('HMGET', KEYS[1], ARGV[1])[1] or '', 1, MAX_SWITCHES + 1)`)

// readSwitches returns the switches and their text, which is empty if there are none.
func (r Record) readSwitches(ctx context.Context) (text string, s Switches, err error) {
	reply, err := r.run(ctx, SwitchScript, []string{r.switches()}, switchField)
	if err != nil {
		return "", s, err
	}
	if text, _ = reply.(string); text == "" {
		return "", s, nil
	}
	s, err = parseSwitches(text)
	return text, s, err
}

func parseSwitches(text string) (s Switches, err error) {
	if len(text) > maxSwitches || json.Unmarshal([]byte(text), &s) != nil || s.Change < 1 || s.Change > 1<<53 || len(s.Off) > MaxSwitches ||
		slices.ContainsFunc(s.Off, func(o Switch) bool { return o.Rule == "" }) {
		return Switches{}, fmt.Errorf("%w: the switches", ErrRecord)
	}
	return s, nil
}

// ErrSwitches is the error of too many switches, or too long ones.
var ErrSwitches = fmt.Errorf("there are more than %d switches, or their texts are too long", MaxSwitches)

// Change changes the switches by f, which gets the time and may be called more than once, and returns them. Switches that
// are not well formed are replaced.
func (r Record) Change(ctx context.Context, f func(all *Switches, now int64)) (s Switches, err error) {
	for {
		before, s, err := r.readSwitches(ctx)
		if err != nil && !errors.Is(err, ErrRecord) {
			return s, err
		}
		now, err := r.now(ctx)
		if err != nil {
			return s, err
		}
		s.Change = max(s.Change+1, now.UnixMilli())
		s.Begun = cmp.Or(s.Begun, s.Change)
		f(&s, now.UnixMilli())
		var after strings.Builder
		encoder := json.NewEncoder(&after)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(s) // of texts and numbers
		if _, err := parseSwitches(after.String()); err != nil {
			return s, ErrSwitches
		}
		reply, err := r.run(ctx, changeScript, []string{r.switches()}, switchField, before, after.String())
		if err != nil || reply == any(int64(1)) {
			return s, err
		}
		if err := ctx.Err(); err != nil {
			return s, err
		}
	}
}

// A follower has the switches that are in force.
type follower struct {
	off atomic.Pointer[Switches] // nil if nothing is off

	// The goroutine of the Counter uses these.
	text   string   // of the last look
	last   Switches // likewise
	change int64    // of last, and 1; 0 before the first look
}

// Off reports whether the limits of a rule are turned off.
func (c *Counter) Off(rule string) bool {
	s := c.follower.off.Load()
	return s != nil && s.isOff(rule)
}

// Switches returns the number of switches that are in force.
func (c *Counter) Switches() int {
	if s := c.follower.off.Load(); s != nil {
		return len(s.Off)
	}
	return 0
}

// look reads the switches. After an error, those of before stay.
func (c *Counter) look() {
	if c.hanging.Load() > 0 {
		return
	}
	type reading struct {
		text string
		Switches
	}
	read, err := within(c, c.ctx, max(c.config.Timeout, Deadline), func(ctx context.Context) (r reading, err error) {
		r.text, r.Switches, err = c.record.readSwitches(ctx)
		return r, err
	})
	f := &c.follower
	if c.report(err); err != nil || f.change > 0 && read.text == f.text {
		return
	}
	before, next := f.last, read.Switches
	f.text, f.last, f.change = read.text, next, next.Change+1
	if len(next.Off) == 0 {
		f.off.Store(nil)
	} else {
		f.off.Store(&next)
	}
	switch log := c.config.Log(); {
	case (next.Begun != before.Begun || next.Change < before.Change) && len(before.Off) > 0:
		log.Error("weir: Redis has lost the switches, so limits that were off are in force; weir off turns them off again",
			slog.Any("off_before", before.names()), slog.Any("off", next.names()))
	case len(next.Off) > 0:
		last := slices.MaxFunc(next.Off, func(a, b Switch) int { return cmp.Compare(a.Since, b.Since) })
		log.Warn("weir: limits are off", slog.Any("off", next.names()), slog.String("by", last.By), slog.String("reason", last.Reason))
	case len(before.Off) > 0:
		by := Switch{}
		if next.On != nil {
			by = *next.On
		}
		log.Info("weir: limits that were off are in force", slog.Any("off_before", before.names()), slog.String("by", by.By), slog.String("reason", by.Reason))
	}
	c.Changed()
}
