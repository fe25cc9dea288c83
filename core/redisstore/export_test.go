package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/testkit"
)

// Clock makes scripts take the time from clock, which returns Unix microseconds as decimal text.
func Clock(clock func() string) Option { return option(func(c *config) { c.clock = clock }) }

// Key returns the key for the state of a rule of an identity.
func (s *Store) Key(identity string, r core.Rule) string {
	return s.StateKey(identity, testkit.Compiled(r))
}

// StateKey is Key for a compiled rule.
func (s *Store) StateKey(identity string, r *driver.Compiled) string {
	return s.encoder.Key(s.encoder.Tag(identity), r)
}

// Versions returns the version of the state of each algorithm.
func Versions() map[string]string {
	versions := make(map[string]string)
	for _, a := range testkit.Algorithms {
		key := new(wire.Encoder).Key("", testkit.Compiled(a.Rule("r", core.PerMinute(1))))
		versions[a.Name], _, _ = strings.Cut(strings.TrimPrefix(key, "{}"), ":")
	}
	return versions
}

// BucketAlone returns the hash of the script for decisions about one bucket each.
func BucketAlone() any {
	for name, script := range wire.Scripts() {
		if name == "take one bucket" {
			return script.SHA
		}
	}
	panic("there is no such script")
}

// Scripts returns the script with all libraries for each verb, by the name of its file, and for the
// hash of each script of that verb the name of that file. Scripts that take places have an argument more.
func Scripts() (sources map[string]string, files map[any]string) {
	sources, files = make(map[string]string), make(map[any]string)
	most := make(map[string]int) // the number of libraries of the script in sources
	for name, script := range wire.Scripts() {
		verb, libraries, _ := strings.Cut(name, " ")
		file := verb + ".lua"
		if verb != "adjust" && !strings.Contains(libraries, "in_flight") {
			file = verb + "_rates.lua"
		}
		files[script.SHA] = file
		if n := len(strings.Fields(libraries)); n > most[file] {
			most[file], sources[file] = n, script.Source
		}
	}
	return sources, files
}

// Crowd makes s, a Store on a *redis.Client, send each job in one round trip with earlier
// jobs, on keys that no other job uses. The neighbours must not change the outcome.
func Crowd(s *Store) *Store {
	s.pipe.Sender = &crowd{Server: s.pipe.Sender.(*pipe.Server), store: s, random: rand.New(rand.NewPCG(1, 2))}
	return s
}

type crowd struct {
	*pipe.Server
	store   *Store
	mu      sync.Mutex
	random  *rand.Rand
	earlier []*pipe.Job
}

func (c *crowd) Send(j *pipe.Job) error {
	c.mu.Lock()
	own, jobs := c.clone(j, ""), make([]*pipe.Job, 0, 4)
	for i := range c.random.IntN(4) {
		if len(c.earlier) > 0 {
			neighbour := c.clone(c.earlier[c.random.IntN(len(c.earlier))], fmt.Sprint("/", i%2)) // some neighbours share keys
			neighbour.Clock = j.Clock
			jobs = append(jobs, neighbour)
		}
	}
	jobs = slices.Insert(jobs, c.random.IntN(len(jobs)+1), j)
	if c.earlier = append(c.earlier, own); len(c.earlier) > 100 {
		c.earlier = slices.Delete(c.earlier, 0, 50)
	}
	c.mu.Unlock()
	c.Run(context.Background(), jobs)
	for _, neighbour := range jobs {
		if j.Err == nil && neighbour.Err != nil {
			return fmt.Errorf("a neighbour failed: %w", neighbour.Err)
		}
	}
	return j.Err
}

// clone returns a copy of j that was not sent, with a suffix of its keys.
func (c *crowd) clone(j *pipe.Job, suffix string) *pipe.Job {
	own := new(pipe.Job)
	own.Charges = slices.Clone(j.Charges)
	for i := range own.Charges {
		if w := own.Charges[i].Waiter; w != nil {
			own.Charges[i].Waiter = new(driver.Waiter)
			*own.Charges[i].Waiter = *w
		}
	}
	for _, key := range j.Keys {
		own.Keys = append(own.Keys, key+suffix)
	}
	c.store.encoder.Encode(&own.Request)
	return own
}
