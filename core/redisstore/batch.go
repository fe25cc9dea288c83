package redisstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// A batch is a script with the requests that it decides, in the order of the script.
type batch struct {
	script   *script
	args     []any // of cmd
	cmd      command
	requests []*request
}

// newBatches divides requests into batches: those of a batch have the same verb, clock and slot.
func newBatches(requests []*request) []batch {
	var batches []batch
next:
	for _, r := range requests {
		for i := range batches {
			b := &batches[i]
			if first := b.requests[0]; first.verb == r.verb && first.slot == r.slot && first.clock == r.clock {
				b.add(r)
				continue next
			}
		}
		batches = append(batches, batch{requests: []*request{r}})
	}
	for i := range batches {
		batches[i].compose()
	}
	return batches
}

// add adds r after a request with the same arguments, so that they share them, unless a later request
// has a key of r: the requests of one key stay in their order.
func (b *batch) add(r *request) {
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
func (b *batch) compose() {
	keys, set := 0, librarySet(0)
	for _, r := range b.requests {
		keys, set = keys+len(r.keys), set|r.set
	}
	b.script = scriptFor(b.requests[0].verb, set)
	b.args = append(make([]any, 0, 32+keys), evalsha, b.script.sha, integer(int64(keys)))
	for _, r := range b.requests {
		for _, key := range r.keys {
			b.args = append(b.args, key)
		}
	}
	b.args = append(b.args, b.requests[0].clock)
	if verb := b.requests[0].verb; numbered(verb, set) {
		number := rand.Int64N(maxNumber - int64(keys) - maxPlaces)
		b.args = append(b.args, integer(number))
		for _, r := range b.requests {
			number += int64(len(r.keys))
			r.number = number
			if r.places != nil {
				r.places.sent(number)
			}
		}
	}
	for rest := b.requests; len(rest) > 0; {
		r, n := rest[0], 1
		for n < len(rest) && rest[n].like(r) {
			n++
		}
		b.args = append(b.args, integer(int64(n)), integer(int64(len(r.charges))), nil)
		begin := len(b.args)
		if r.verb == atMost {
			b.args = append(b.args, integer(r.most))
		}
		for i := range r.charges {
			c := &r.charges[i]
			b.args = append(b.args, libraries[c.library], c.op)
			b.args = append(append(b.args, c.algorithm...), c.receipt...)
		}
		b.args[begin-1] = integer(int64(len(b.args) - begin))
		rest = rest[n:]
	}
}

// useSource replaces the hash of the script by its source. It returns false if it has done so
// before.
func (b *batch) useSource() bool {
	if b.args[0] == eval {
		return false
	}
	b.args[0], b.args[1] = eval, b.script.source
	return true
}

// setOutcomes sets the outcomes of the requests from the reply to the script, or from its error. It
// returns the number of unreadable states that the script has replaced.
func (b *batch) setOutcomes(reply any, err error) (replaced uint64) {
	rest, _ := reply.([]any)
	var now any
	if len(rest) > 1 {
		n := validInteger(rest[1])
		now, rest = rest[0], rest[2:]
		if n < 0 || n > int64(len(b.requests)*maxCharges) {
			n, rest = 0, nil
		}
		replaced = uint64(n)
	}
	for i, r := range b.requests {
		if err != nil || len(rest) == 0 {
			r.err = cmp.Or(err, errReply)
			continue
		}
		n := 1
		if text, failed := rest[0].(string); failed {
			r.err = scriptError(text)
		} else {
			n = min(r.values, len(rest))
			r.time, r.reply = now, rest[:n:n]
		}
		rest = rest[n:]
		if i == len(b.requests)-1 && len(rest) > 0 {
			r.err = errReply
		}
	}
	return replaced
}

// A scriptError is the error of one decision of a script.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (scriptError) RedisError() {}
