package overrides

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/call"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// An App is an application in Redis: its keys, and the calls of its client.
type App struct {
	Client redis.UniversalClient
	Prefix string // of all keys, with the name of the application
	Name   string
	Hasher keyhash.Hasher
}

// A Kind is an override or a block, and names the sorted set of the keys that have one. A block hides
// the override while it lasts.
type Kind string

const (
	Overrides Kind = "overrides"
	Blocks    Kind = "blocks"
)

// setKey returns the key of a sorted set of members. The scores are the ends in Unix milliseconds,
// or +inf. A block is nothing but its member. An override has a text, too, and is a member before
// the text exists.
func (a *App) setKey(k Kind) string { return a.sharedKey(string(k)) }

// changesKey returns the key of a stream with the changes of these sets. It is in the hash slot of
// both, so that a transaction changes a set and the stream together.
func (a *App) changesKey() string { return a.sharedKey("changes") }

// recordKey returns the key of the Record of a member. It ends after the member.
func (a *App) recordKey(k Kind, member string) string {
	return strings.TrimSuffix(a.setKey(k), "s") + ":" + member
}

// secretKey returns the key of a text that tells with which secret the latest entry was written.
func (a *App) secretKey() string { return a.sharedKey("secret") }

// sharedKey returns a key in the hash slot of the overrides and blocks of the application.
func (a *App) sharedKey(name string) string { return a.Prefix + "{rules:" + a.Name + "}" + name }

// textKey returns the key of the text of an override. It is in the hash slot of the states of
// redisstore.
func (a *App) textKey(tag, policy string) string {
	return a.Prefix + "{" + tag + "}override:" + policy
}

// memberOf returns the member for a key of a policy: see hashOfMember.
func memberOf(policy, tag string) string { return tag + ":" + policy }

// errClient names the client in the errors of package call: it panics after a malformed reply, and
// a hook may do anything.
var errClient = errors.New("the client")

// Await calls f, and returns its result, or the error of ctx if ctx ends first. By default,
// go-redis ignores the deadline of a context.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return call.Detached(ctx, errClient, nil, f)
}

// ask calls f, whose commands have a second for their replies.
func ask[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Await(ctx, func() (T, error) { return f(ctx) })
}

// Transact executes the commands of f in one transaction. Its error is that of the first command
// that fails.
func (a *App) Transact(ctx context.Context, f func(redis.Pipeliner)) error {
	commands, err := a.Client.TxPipelined(ctx, func(tx redis.Pipeliner) error { f(tx); return nil })
	for _, c := range commands {
		if err != nil && c.Err() != nil {
			return c.Err() // err tells only that the transaction was discarded
		}
	}
	return err
}
