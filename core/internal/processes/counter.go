package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
)

const (
	// interval is the time between heartbeats, on average.
	interval = 10 * time.Second
	// jitter is the longest time by which an interval is longer or shorter, so that processes which began together do not
	// stay together.
	jitter = time.Second
	// second is the time between the first two heartbeats: processes that begin together learn one another's.
	second = 2 * time.Second
	// gather is the time after the first rule is declared until the first heartbeat, which then has the rules that are
	// declared at the start of a program.
	gather = 100 * time.Millisecond
	// apart is the shortest time between heartbeats because of new rules.
	apart = time.Second
	// Deadline is the shortest deadline of a heartbeat. A server that is too slow for decisions still counts.
	Deadline = time.Second
	// window is the time for which a reading counts after the next one, also after an outage: of all that count, the largest
	// number is in force. After Redis has lost the heartbeats, all processes have written one again when the last reading of
	// before does not count any more.
	window = 15 * time.Second
)

// A Counter writes the heartbeats of a store, and knows how many processes have each of its rules. Use [New]. It is safe
// for concurrent use.
type Counter struct {
	config  Config
	record  Record
	process string

	numbers  atomic.Pointer[numbers]
	follower follower
	hanging  atomic.Int64 // commands that have not returned
	begin    sync.Once
	running  sync.WaitGroup
	changed  chan struct{} // has a value if a heartbeat is to be sent soon
	ctx      context.Context
	end      context.CancelFunc
	leave    sync.Once

	mu       sync.Mutex                     // Close ends ctx with mu
	declared map[string]map[string]declared // by the names of the rule and of the plan
	renewed  bool                           // declared has changed since the last heartbeat
	tellers  []*func(*About)                // complete the description of the process
	adders   []func(*Figures, func(string) string)

	// The goroutine uses these, and Close after its end.
	readings []counts             // those of a window before the latest
	first    time.Time            // of the first reading
	since    int64                // the time of Redis then, in Unix milliseconds
	last     Group                // of the last heartbeat
	group    Group                // of the next one
	rules    [][2]string          // that it publishes
	saidAt   time.Time            // when the rules were published; zero if they are to be published
	removed  map[string]bool      // rules that were published and are gone
	left     map[string]time.Time // groups that a heartbeat may have been in, and when the process left them
	lists    map[string][]string  // the rules of groups
	logged   map[string]bool      // texts that are logged once
	counted  map[string]Counts    // the decisions that were sent, or lost
	addedAt  time.Time            // when that was, or the first heartbeat

	differing map[string]bool // rules that other processes describe otherwise; they are logged once
}

// declared is a definition of a rule, and the number of limiters that have it.
type declared struct {
	definition driver.Definition
	limiters   int
}

// counts are the numbers of processes in a reading.
type counts struct {
	at     time.Time
	all    int
	byRule map[string]int // of the rules that the process then had
}

// numbers are those that are in force.
type numbers struct {
	total  int // of all processes, or 0
	rest   int // for a rule that byRule does not have
	byRule map[string]int
}

// A Config has the settings of a Counter.
type Config struct {
	Timeout   time.Duration           // of a decision
	Instances int                     // the number of processes that the application states, or 0
	Follows   bool                    // it looks at the switches
	Tag       func(key string) string // the hash of a key in Redis
	// Once is Do of the Record without a repetition of a command that may have been executed.
	Once    func(ctx context.Context, args ...any) (any, error)
	Log     func() *slog.Logger
	Unknown func()             // is called when a heartbeat fails before the first reply
	Refused func(error) string // returns the change that makes heartbeats possible, or an empty text if err may be an outage
}

// New returns a Counter of the application of a Record.
func New(r Record, config Config) *Counter {
	c := &Counter{
		config: config, record: r, group: GroupOf(nil), process: fmt.Sprintf("%016x", rand.Uint64()), changed: make(chan struct{}, 1),
		declared: make(map[string]map[string]declared), left: make(map[string]time.Time), lists: make(map[string][]string), logged: make(map[string]bool), removed: make(map[string]bool), differing: make(map[string]bool), counted: make(map[string]Counts),
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.numbers.Store(&numbers{rest: config.Instances})
	return c
}

// Number returns the number of processes that have a rule of the store: that of all processes if no reading has the rule,
// and 0 before the first reply without Instances.
func (c *Counter) Number(rule string) int {
	n := c.numbers.Load()
	if known, ok := n.byRule[rule]; ok {
		return known
	}
	return n.rest
}

// Total returns the number of processes of the application, or 0 before the first reply.
func (c *Counter) Total() int { return c.numbers.Load().total }

// Declare notes rules of the store. The first one begins the heartbeats.
func (c *Counter) Declare(changes ...driver.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		for _, d := range change.Old {
			c.add(d, -1)
		}
	}
	for _, change := range changes {
		for _, d := range change.New {
			c.add(d, 1)
		}
	}
	if len(c.declared) > 0 {
		c.soon()
	}
}

// add adds to the number of limiters that have a definition. It is called with mu.
func (c *Counter) add(d driver.Definition, n int) {
	c.renewed = true
	plans := c.declared[d.Name]
	if plans == nil {
		plans = make(map[string]declared)
		c.declared[d.Name] = plans
	}
	if n += plans[d.Plan].limiters; n > 0 {
		plans[d.Plan] = declared{d, n}
	} else if delete(plans, d.Plan); len(plans) == 0 {
		delete(c.declared, d.Name)
	}
}

// Tell makes about complete the description of the process until the result is called, and begins the heartbeats. A
// goroutine calls about.
func (c *Counter) Tell(about func(*About)) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellers, c.renewed = append(slices.Clone(c.tellers), &about), true
	c.soon()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tellers = slices.DeleteFunc(slices.Clone(c.tellers), func(f *func(*About)) bool { return f == &about })
		c.soon()
	}
}

// Count makes the process tell the decisions that add, which a goroutine calls, adds to figures: those of rules since the
// beginning, and denials since the last call.
func (c *Counter) Count(add func(f *Figures, tag func(key string) string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adders = append(slices.Clone(c.adders), add)
}

// Changed makes a heartbeat soon, because the process has something new to say.
func (c *Counter) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.soon()
}

// soon begins the heartbeats, or makes the next one soon. It is called with mu.
func (c *Counter) soon() {
	if c.ctx.Err() != nil {
		return
	}
	c.begin.Do(func() { c.running.Go(c.run) })
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run writes heartbeats until Close.
func (c *Counter) run() {
	var sent time.Time
	next := time.Now().Add(gather)
	timer, looks := time.NewTimer(gather), time.NewTimer(0)
	defer timer.Stop()
	defer looks.Stop()
	if !c.config.Follows {
		looks.Stop()
	}
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-looks.C:
			c.look()
			looks.Reset(lookTime*9/10 + rand.N(lookTime/5))
			continue
		case <-c.changed:
			soon := time.Now().Add(gather)
			if at := sent.Add(apart); at.After(soon) {
				soon = at
			}
			if soon.Before(next) {
				next = soon
			}
		case <-timer.C:
			wait := interval - jitter + rand.N(2*jitter)
			if sent.IsZero() {
				wait = second
			}
			sent = time.Now()
			c.beat()
			next = sent.Add(wait)
		}
		timer.Reset(time.Until(next))
	}
}

// heartbeat returns that of now, with the rules if they are to be said.
func (c *Counter) heartbeat() Heartbeat {
	c.mu.Lock()
	tellers, renewed := c.tellers, c.renewed
	var rules map[string][]driver.Definition
	if c.renewed = false; renewed {
		rules = make(map[string][]driver.Definition, len(c.declared))
		for name, plans := range c.declared {
			for _, d := range plans {
				rules[name] = append(rules[name], d.definition)
			}
		}
	}
	c.mu.Unlock()
	a := self
	a.Switches = c.follower.change
	for _, about := range tellers {
		(*about)(&a)
	}
	if renewed {
		before, bans := c.rules, takeBans(rules)
		if c.group, c.rules = GroupOf(slices.Sorted(maps.Keys(rules))), publish(rules, bans, a.Sets); !slices.Equal(before, c.rules) {
			c.saidAt = time.Time{}
			for _, rule := range before[:min(len(before), max(0, maxPublished-len(c.removed)))] {
				c.removed[rule[0]] = true
			}
			for _, rule := range c.rules {
				delete(c.removed, rule[0])
			}
		}
	}
	h := Heartbeat{Process: c.process, Group: c.group, About: a.text(), Removed: slices.Sorted(maps.Keys(c.removed)), Since: c.since}
	if time.Since(c.saidAt) > again {
		h.Rules = c.rules
	}
	return h
}

// beat writes a heartbeat and reads the numbers.
func (c *Counter) beat() {
	h := c.heartbeat()
	if h.Group != c.last {
		delete(c.left, h.Group.Name)
		if c.last.Name != "" {
			c.left[c.last.Name] = time.Now()
		}
		c.last = h.Group
	}
	if c.hanging.Load() > 0 { // a client without timeouts would lose a connection for each
		return
	}
	read, err := c.send(c.ctx, max(c.config.Timeout, Deadline), h)
	reported := c.report(err)
	if read.Counts == nil {
		if c.first.IsZero() && !reported && c.ctx.Err() == nil {
			c.config.Unknown()
		}
		return
	}
	if c.since == 0 {
		c.since = read.Now.UnixMilli()
	}
	for _, name := range h.Removed {
		delete(c.removed, name)
	}
	if h.Rules != nil {
		c.saidAt = time.Now()
	} else if read.Fresh { // Redis has lost the record, and the rules with it
		c.saidAt = time.Time{}
		c.Changed()
	}
	if differ := slices.DeleteFunc(read.Differ, func(rule string) bool { return c.differing[rule] }); len(differ) > 0 {
		for _, rule := range differ {
			c.differing[rule] = true
		}
		c.config.Log().Warn("weir: other processes of the application have other limits for rules of this one; weir doctor prints both", slog.Any("rules", differ))
	}
	if read.Group == All {
		reason := fmt.Sprintf("there are more than %d groups of processes with equal rules", MaxGroups)
		if h.Group.Name == All {
			reason = fmt.Sprintf("the process has more than %d rules, or their names are longer than %d bytes", maxRules, maxText)
		}
		c.warn("weir: limits are divided by the number of all processes of the application in an outage", "reason", reason)
	}
	c.report(c.learn(read, h.Group))
	c.note(read, h.Group)
	c.report(c.addFigures(read.Now))
}

// Figures returns the decisions that are counted so far, and the denials since the last call.
func (c *Counter) Figures() Figures {
	c.mu.Lock()
	adders := c.adders
	c.mu.Unlock()
	f := Figures{make(map[string]Counts), make(map[DeniedKey]uint64)}
	for _, add := range adders {
		add(&f, c.config.Tag)
	}
	return f
}

// addFigures tells the decisions since the last time. now is the time of Redis.
func (c *Counter) addFigures(now time.Time) error {
	if c.addedAt.IsZero() {
		c.addedAt = time.Now()
	}
	if time.Since(c.addedAt) < FiguresTime {
		return nil
	}
	c.addedAt = time.Now()
	f := c.Figures()
	gained := f.since(c.counted)
	once := c.record
	once.Do = c.config.Once
	_, err := within(c, c.ctx, max(c.config.Timeout, Deadline), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, once.Add(ctx, now, gained, f.Denied)
	})
	return err
}

// send writes h, and removes the process from the groups in which an earlier heartbeat may have been: its reply may be
// lost, and a command that was late may have been executed after the next one.
func (c *Counter) send(ctx context.Context, timeout time.Duration, h Heartbeat) (Reading, error) {
	for name, at := range c.left {
		if time.Since(at) > Lifetime {
			delete(c.left, name)
		}
	}
	h.Left = slices.Sorted(maps.Keys(c.left))
	return within(c, ctx, timeout, func(ctx context.Context) (Reading, error) { return c.record.Beat(ctx, h) })
}

// errClient names the client in the errors of package call.
var errClient = errors.New("the client")

// within calls f, which may ignore its context, and returns after the timeout at the latest.
func within[T any](c *Counter, ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return call.Detached(ctx, errClient, &c.hanging, func() (T, error) { return f(ctx) })
}

// learn reads the rules of groups that it does not know, and forgets those of groups that have gone.
func (c *Counter) learn(read Reading, own Group) error {
	c.lists[own.Name], _ = parseRules(own.Text)
	c.lists[None] = []string{}
	var unknown []string
	for name := range read.Counts {
		if _, ok := c.lists[name]; !ok && name != All {
			unknown = append(unknown, name)
		}
	}
	maps.DeleteFunc(c.lists, func(name string, _ []string) bool { return read.Counts[name] == 0 && name != None })
	if unknown == nil {
		return nil
	}
	lists, err := within(c, c.ctx, max(c.config.Timeout, Deadline), func(ctx context.Context) (map[string][]string, error) {
		return c.record.RulesOf(ctx, unknown)
	})
	maps.Copy(c.lists, lists)
	return err
}

// note adds a reading of a process that was in the group own.
func (c *Counter) note(read Reading, own Group) {
	now := counts{at: time.Now(), byRule: make(map[string]int)}
	rest := 0 // the processes of groups whose rules are not known
	for name, n := range read.Counts {
		now.all = min(now.all+n, maxCount)
		if c.lists[name] == nil {
			rest = min(rest+n, maxCount)
		}
	}
	if read.Counts[All] > 0 {
		rest = now.all
	}
	for _, rule := range c.lists[own.Name] {
		now.byRule[rule] = rest
	}
	for name, n := range read.Counts {
		for _, rule := range c.lists[name] {
			if known, ok := now.byRule[rule]; ok {
				now.byRule[rule] = min(known+n, now.all)
			}
		}
	}
	before := 0
	if n := len(c.readings); n > 0 {
		before = c.readings[n-1].all
	} else {
		c.first = now.at
	}
	c.readings = append(c.readings, now)
	for len(c.readings) > 1 && now.at.Sub(c.readings[1].at) > window {
		c.readings = c.readings[1:]
	}
	c.publish()
	if before > 0 && (now.all > 10*before || before > 10*now.all) || before <= manyProcesses && now.all > manyProcesses {
		c.config.Log().Warn("weir: the number of processes has changed much", slog.Int("from", before), slog.Int("to", now.all))
	}
}

// manyProcesses is the number of processes that is logged when it is exceeded.
const manyProcesses = 10_000

// publish calculates the numbers: of each rule the largest one of the readings that count, and Instances until they fill a
// window. A reading that does not have a rule counts with the number of all processes, which may all have got the rule since.
func (c *Counter) publish() {
	latest := c.readings[len(c.readings)-1]
	next := &numbers{byRule: make(map[string]int, len(latest.byRule))}
	for _, r := range c.readings {
		next.total = max(next.total, r.all)
	}
	least := 0
	if latest.at.Sub(c.first) < window {
		least = c.config.Instances
	}
	next.rest = max(next.total, least)
	for rule := range latest.byRule {
		n := least
		for _, r := range c.readings {
			n = max(n, cmp.Or(r.byRule[rule], r.all))
		}
		next.byRule[rule] = n
	}
	c.numbers.Store(next)
}

// report logs err once, unless it may be an outage, and reports whether it is none.
func (c *Counter) report(err error) (reported bool) {
	if errors.Is(err, ErrRecord) {
		c.warn("weir: a part of the record of processes was ignored", "error", err.Error())
		return true
	} else if err != nil {
		if change := c.config.Refused(err); change != "" {
			c.warn("weir: the processes cannot be counted: in an outage, their number is that of resilient.Instances, or the last one",
				"error", err.Error(), "change", change)
			return true
		}
	}
	return false
}

// warn logs a text once.
func (c *Counter) warn(text string, attrs ...any) {
	if !c.logged[text] {
		c.logged[text] = true
		c.config.Log().Warn(text, attrs...)
	}
}

// Close ends the heartbeats, and removes the process from the record, for which it waits at most for the time of a
// decision. A heartbeat under way may still be executed, and then counts until its end.
func (c *Counter) Close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.running.Wait()
	c.leave.Do(func() {
		if c.last.Name == "" {
			return
		}
		end := Heartbeat{Process: c.process, Group: Group{Name: c.last.Name}}
		for until := time.Now().Add(c.config.Timeout); ; time.Sleep(retry) {
			_, err := c.send(context.Background(), time.Until(until), end)
			if err == nil || !busy(err) || time.Until(until) < 2*retry {
				return
			}
		}
	})
}

// retry is the time between the attempts of Close to remove the process from a server that is busy.
const retry = 5 * time.Millisecond

// busy reports whether err says that the server did not execute a command, and may do so soon.
func busy(err error) bool {
	code, _, _ := strings.Cut(err.Error(), " ")
	return code == "BUSY" || code == "LOADING" || code == "TRYAGAIN"
}
