// Package overrides has the overrides and blocks of the keys of an application, which are in Redis and change while
// the program runs. A decision calls [Redis.Get], which uses the knowledge of the process, and reads a key if there is
// too little of it.
//
//	Get, Has         cache.go     the results of reads, and the indexes of all keys with an override or a block
//	                 reader.go    reads keys: round trips, outages
//	                 index.go     the hashes of keys, with the ends
//	Follow           changes.go   keeps the indexes up to date
//	Put, Block, ...  write.go     writes overrides and blocks
//	List, Entries    entry.go     shows them to operators
//	Transact         app.go       the names of the keys, and the calls of the client
//
// A package above reads and writes the texts of overrides (see [Callbacks]), and describes the keys in Redis for other
// programs.
package overrides

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/memo"
)

// A Redis has the overrides and blocks of an application. It is safe for concurrent use.
type Redis struct {
	App
	*cache
	callbacks Callbacks
	parsed    memo.Map[string, parsedText] // by text
	contents  memo.Map[string, *Content]   // by ID

	polling chan struct{}          // holds an element while changes are polled
	last    string                 // the ID of the latest change in the indexes; empty if they have to be read
	latest  string                 // the last one that was not noChange, to notice that Redis has lost all
	known   atomic.Pointer[string] // last, for other goroutines, after all changes until it are in the indexes
	lostAt  atomic.Int64           // when Redis has lost all, in Unix milliseconds; 0 after the next change
	from    int64                  // members that have ended before are not in the indexes
}

// Callbacks are functions of the package above.
type Callbacks struct {
	Parse   func(text string) (Content, time.Time, error) // parses the text of an override
	Failed  func(error)                                   // receives the error of an outage, or of the secret
	Invalid func(error)                                   // receives an error of one override, of which there may be as many as keys
	Lost    func(error)                                   // receives the error of a Redis that has lost all overrides and blocks
	Changed func()                                        // is called when Changes returns another ID
}

// maxContents is the number of texts whose results are remembered.
const maxContents = 10_000

// New returns the overrides and blocks of an application.
func New(app App, o Options, c Callbacks) *Redis {
	o.parts = 1
	if _, ok := app.Client.(*redis.ClusterClient); ok {
		o.parts = 16
	}
	s := &Redis{App: app, callbacks: c, cache: newCache(o, app.Hasher), polling: make(chan struct{}, 1)}
	s.parsed.Max, s.contents.Max = maxContents, maxContents
	s.read, s.report = s.readKeys, c.Failed
	s.known.Store(new(string))
	return s
}

// Read returns the override of a key in Redis that applies now.
func (s *Redis) Read(ctx context.Context, policy, key string) (Override, error) {
	k := &fetch{policy: policy, tag: s.Hasher.Tag(key)}
	_, err := Await(ctx, func() (struct{}, error) { return struct{}{}, s.readKeys(ctx, []*fetch{k}) })
	if err = cmp.Or(err, k.err); err != nil {
		return Override{}, fmt.Errorf("weir: override in Redis: %w", err)
	}
	return k.current(), nil
}

// readKeys reads the overrides of keys for the cache. A text that is no override leaves the old one in
// force.
func (s *Redis) readKeys(ctx context.Context, all []*fetch) error {
	members, texts := make([]string, len(all)), make([]*redis.SliceCmd, len(all))
	pipe := s.Client.Pipeline()
	for i, k := range all {
		members[i] = memberOf(k.policy, k.tag)
		texts[i] = pipe.MGet(ctx, s.textKey(k.tag, k.policy)) // nil for a value of another type
	}
	blocks := pipe.ZMScore(ctx, s.setKey(Blocks), members...)
	_, failed := pipe.Exec(ctx) // the first of the errors of the commands
	ends, err := blocks.Result()
	if err == nil && len(ends) != len(all) {
		err = cmp.Or(failed, fmt.Errorf("Redis replies with %d scores for %d members", len(ends), len(all)))
	}
	if err != nil {
		return err
	}
	for i, k := range all {
		k.block = s.block(endOf(ends[i]))
		switch values, err := texts[i].Result(); {
		case err != nil:
			k.err = err
		case len(values) != 1:
			k.err = fmt.Errorf("Redis replies with %d values for a key", len(values))
		default:
			s.setOverride(k, values[0])
		}
	}
	return nil
}

// setOverride sets the override of k to the value of its text in Redis.
func (s *Redis) setOverride(k *fetch, value any) {
	var p parsedText // none, for a value that is absent or of another type
	text, ok := value.(string)
	if k.hasText = ok; ok {
		p = s.parse(text)
	}
	if p.err != nil {
		s.callbacks.Invalid(fmt.Errorf("weir: an override in Redis is invalid: %s: %w", s.textKey(k.tag, k.policy), p.err))
		return
	}
	k.override = p.Override
}

// maxParsed is the length of the longest text of which the result of parse is remembered.
const maxParsed = 1024

// A parsedText is the result of parse.
type parsedText struct {
	Override
	err error
}

// parse parses the text of an override. Overrides that differ at most in their ends share their
// Content.
func (s *Redis) parse(text string) parsedText {
	parse := func(text string) parsedText {
		c, until, err := s.callbacks.Parse(text)
		if err != nil {
			return parsedText{err: err}
		}
		return parsedText{Override: Override{s.contents.Get(c.ID(), func(string) *Content { return &c }), until}}
	}
	if len(text) > maxParsed {
		return parse(text)
	}
	return s.parsed.Get(text, parse)
}

// Stats describe the overrides, in the words of rules.RedisStats.
type Stats struct {
	Reads, Stale, Missing uint64
	Keys                  int
	Overrides, Blocks     int
	Age                   time.Duration
}

// Stats returns the present numbers.
func (s *Redis) Stats() Stats {
	x, age := s.indexes.Load(), time.Duration(-1)
	if x.confirmed != unconfirmed {
		age = s.since() - x.confirmed.at
	}
	return Stats{
		Reads: s.count.Load(), Stale: s.stale.Load(), Missing: s.missing.Load(), Keys: s.with.EstimatedSize() + s.without.EstimatedSize(),
		Overrides: x.counts.overrides, Blocks: x.counts.blocks, Age: age,
	}
}
