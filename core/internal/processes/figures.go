package processes

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
)

const (
	// FiguresTime is the time between two messages with figures, and that of one hash of them.
	FiguresTime = time.Minute
	// FiguresLifetime is the time for which figures stay.
	FiguresLifetime = 2 * time.Hour
	// maxFigures is the number of rules of an application in a minute, and maxDenied that of denied keys in an hour.
	maxFigures, maxDenied = 1000, 1000
	// maxGained is the number of rules, and of denied keys, in one message.
	maxGained = 500
)

//go:embed figures.lua
var figuresFile string

var figures = newScript(figuresFile)

// Counts are numbers of decisions, at the index of their result.
type Counts = [driver.Failed + 1]uint64

// Figures are decisions of limiters.
type Figures struct {
	Rules  map[string]Counts // by the name of the rule, and those of all events under an empty name
	Denied map[DeniedKey]uint64
}

// A DeniedKey is a key that a rule has denied.
type DeniedKey struct{ Tag, Rule string }

// since returns the decisions of f that before does not have, of at most maxGained rules, and adds them to before: those of
// further rules follow the next time.
func (f *Figures) since(before map[string]Counts) map[string]Counts {
	gained := make(map[string]Counts)
	for rule, now := range f.Rules {
		if len(gained) == maxGained {
			break
		}
		var gain Counts
		for i, n := range now {
			gain[i] = n - min(n, before[rule][i])
		}
		if gain != (Counts{}) {
			gained[rule], before[rule] = gain, now
		}
	}
	return gained
}

func textOf(c Counts) string {
	last := 0
	for i, n := range c {
		if n > 0 {
			last = i
		}
	}
	text := make([]byte, 0, 32)
	for i, n := range c[:max(last+1, int(driver.Denied)+1)] {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, n, 10)
	}
	return string(text)
}

func parseCounts(text string) (c Counts, ok bool) {
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > len(c) {
		return c, false
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 53)
		if err != nil {
			return Counts{}, false
		}
		c[i] = n
	}
	return c, true
}

// The keys of figures.
func (r Record) minute(at time.Time) string {
	return r.Keys + ":figures:" + strconv.FormatInt(at.UnixMilli()/FiguresTime.Milliseconds(), 10)
}

func (r Record) hour(at time.Time) string {
	return r.Keys + ":denied:" + strconv.FormatInt(at.UnixMilli()/time.Hour.Milliseconds(), 10)
}

// Add adds the decisions of a process to those of the application. now is the time of Redis.
func (r Record) Add(ctx context.Context, now time.Time, rules map[string]Counts, denied map[DeniedKey]uint64) error {
	names := slices.Sorted(maps.Keys(rules))
	args := []any{len(names)}
	for _, name := range names {
		args = append(args, name, textOf(rules[name]))
	}
	left := maxGained
	for k, n := range denied {
		if left--; left >= 0 {
			args = append(args, n, k.Tag+" "+k.Rule)
		}
	}
	if len(args) == 1 {
		return nil
	}
	_, err := r.run(ctx, figures, []string{r.minute(now), r.hour(now)}, args...)
	return err
}

// Figures returns the decisions of the application in the last minutes, of which the present one is not complete, and the
// keys with the most denials in this hour and the one before. Those that are not well formed are left out, and the error
// then an ErrRecord.
func (r Record) Figures(ctx context.Context, minutes int) (f Figures, err error) {
	now, err := r.now(ctx)
	if err != nil {
		return f, err
	}
	f = Figures{make(map[string]Counts), make(map[DeniedKey]uint64)}
	var keys []string
	for i := range minutes {
		keys = append(keys, r.minute(now.Add(-time.Duration(i)*FiguresTime)))
	}
	var found []map[string]string
	for some := range slices.Chunk(keys, minutesAtOnce) {
		next, err := r.fields(ctx, some, maxMember, maxFigures)
		if err != nil {
			return f, err
		}
		found = append(found, next...)
	}
	var damaged error
	for _, fields := range found {
		for rule, text := range fields {
			gained, ok := parseCounts(text)
			if !ok {
				damaged = fmt.Errorf("%w: figures of a rule", ErrRecord)
				continue
			}
			sum := f.Rules[rule]
			for i, n := range gained {
				sum[i] += n
			}
			f.Rules[rule] = sum
		}
	}
	for _, at := range []time.Time{now, now.Add(-time.Hour)} {
		reply, err := r.Do(ctx, "zrevrange", r.hour(at), 0, maxDenied-1, "withscores")
		if err != nil {
			return f, err
		}
		for member, score := range pairs(reply) {
			tag, rule, ok := strings.Cut(member, " ")
			n, err := strconv.ParseFloat(score, 64)
			if !ok || len(member) > maxMember || err != nil || n < 1 || n > 1<<53 {
				damaged = fmt.Errorf("%w: a denied key", ErrRecord)
				continue
			}
			f.Denied[DeniedKey{tag, rule}] += uint64(n)
		}
	}
	return f, damaged
}

// Forget removes a denied key, with its hash, from the figures.
func (r Record) Forget(ctx context.Context, tag string) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	for _, at := range []time.Time{now.Add(-2 * time.Hour), now.Add(-time.Hour), now} {
		reply, err := r.Do(ctx, "zrange", r.hour(at), 0, maxDenied-1)
		if err != nil {
			return err
		}
		members, _ := reply.([]any)
		args := []any{"zrem", r.hour(at)}
		for _, member := range members {
			if text, _ := member.(string); strings.HasPrefix(text, tag+" ") {
				args = append(args, text)
			}
		}
		if len(args) == 2 {
			continue
		}
		if _, err := r.Do(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// minutesAtOnce is the number of minutes that one script reads, which takes 6 ms for 1000 rules.
const minutesAtOnce = 10

// maxMember is the length of the name of a denied key, and that of the figures of a rule with its name.
const maxMember = 256
