package wire

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Batch is a script with the requests that it decides, in the order of the script.
type Batch struct {
	Args     []any // of the command: EVALSHA, or EVAL after UseSource
	script   *Script
	requests []*Request
	keyed    bool
}

// NewBatches divides requests into batches: those of a batch have the same verb, clock and slot. keyed says that the server
// refuses TIME in scripts, see Batch.UseKey.
func NewBatches(requests []*Request, keyed bool) []Batch {
	var batches []Batch
next:
	for _, r := range requests {
		for i := range batches {
			b := &batches[i]
			if first := b.requests[0]; first.verb == r.verb && first.Slot == r.Slot && first.Clock == r.Clock {
				b.add(r)
				continue next
			}
		}
		batches = append(batches, Batch{requests: []*Request{r}, keyed: keyed})
	}
	for i := range batches {
		batches[i].compose()
	}
	return batches
}

// add adds r after a request with the same arguments, so that they share them, unless a later request
// has a key of r: the requests of one key stay in their order.
func (b *Batch) add(r *Request) {
	at := len(b.requests)
	for i, o := range slices.Backward(b.requests) {
		if o.like(r) {
			at = i + 1
			break
		}
		if o.sharesKey(r) {
			break
		}
	}
	b.requests = slices.Insert(b.requests, at, r)
}

var evalsha, eval any = "evalsha", "eval" // boxed once

// compose sets the script and the arguments, and the numbers of the places that the requests take. The header of
// decisions.lua describes the arguments.
func (b *Batch) compose() {
	keys, set := int64(0), librarySet(0)
	for _, r := range b.requests {
		keys, set = keys+int64(len(r.Keys)), set|r.set
	}
	known := 0 // arguments of a request that the script does not get
	if verb := b.requests[0].verb; verb == take && set == 1<<bucket && keys == int64(len(b.requests)) {
		b.script, known = bucketAlone(), bucketKnown
	} else {
		b.script = scriptFor(verb, set)
	}
	room := 32 + int(keys) // the requests of a batch have mostly the same arguments
	if len(b.requests) == 1 {
		room = 6 + int(keys) + len(b.requests[0].args) - known // with the number of the places
	}
	args := append(make([]any, 0, room), evalsha, b.script.SHA, integer(keys))
	for _, r := range b.requests {
		for _, key := range r.Keys {
			args = append(args, key)
		}
	}
	clock := b.requests[0].Clock
	if clock == "" && b.keyed {
		clock = "key"
	}
	args = append(args, clock)
	if b.script.numbered {
		number := rand.Int64N(maxNumber - keys - maxPlaces)
		args = append(args, integer(number))
		for _, r := range b.requests {
			number += int64(len(r.Keys))
			r.number.Store(number)
		}
	}
	for rest := b.requests; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].like(rest[0]) {
			n++
		}
		args = append(append(args, integer(int64(n))), rest[0].args[known:]...)
		rest = rest[n:]
	}
	b.Args = args
}

// UseSource replaces the hash of the script by its source. It returns false if it has done so
// before.
func (b *Batch) UseSource() bool {
	if b.Args[0] == eval {
		return false
	}
	b.Args[0], b.Args[1] = eval, b.script.Source
	return true
}

// UseKey makes the script of b, which has done nothing because the server refuses TIME in scripts, as err says, take the time
// of the server from the expiry of a key, in milliseconds. It returns false if err says something else.
func (b *Batch) UseKey(err error) bool {
	if b.keyed || !strings.HasPrefix(err.Error(), "NOTIME ") {
		return false
	}
	b.keyed = true
	b.compose()
	return true
}

// UsesKey reports whether the script of b takes the time from the expiry of a key, see UseKey.
func (b *Batch) UsesKey() bool { return b.keyed }

// SetOutcomes sets the outcomes of the requests from the reply to the script, or from its error. It
// returns the number of unreadable states that the script has replaced.
func (b *Batch) SetOutcomes(reply any, err error) (replaced uint64) {
	rest, _ := reply.([]any)
	var now any
	if len(rest) > 1 {
		n, states := validInteger(rest[1]), 0
		now, rest = rest[0], rest[2:]
		for _, r := range b.requests {
			states += len(r.Keys)
		}
		if n < 0 || n > int64(states) {
			n, rest = 0, nil
		}
		replaced = uint64(n)
	}
	for i, r := range b.requests {
		if err != nil || len(rest) == 0 {
			r.Err = cmp.Or(err, ErrReply)
			continue
		}
		n := 1
		if text, failed := rest[0].(string); failed {
			r.Err = ScriptError(text)
		} else {
			n = min(r.values, len(rest))
			r.time, r.reply = now, rest[:n:n]
		}
		rest = rest[n:]
		if i == len(b.requests)-1 && len(rest) > 0 {
			r.Err = ErrReply
		}
	}
	return replaced
}

// A ScriptError is the error of one decision of a script.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// RedisError implements the interface redis.Error.
func (ScriptError) RedisError() {}
