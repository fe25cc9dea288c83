package pipe

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// newStrict returns a client with the connections and hooks of rdb that observes the deadlines of
// contexts. WithTimeout copies the client and its options, but not its hooks. Conn has the hooks; the
// last of them runs the commands on the copy, so the Conn never takes a connection.
func newStrict(rdb *redis.Client) Client {
	opts := rdb.Options()
	strict := rdb.WithTimeout(opts.ReadTimeout)
	strict.Options().WriteTimeout, strict.Options().ContextTimeoutEnabled = opts.WriteTimeout, true
	conn := rdb.Conn()
	conn.AddHook(runOn{strict})
	return conn
}

// A runOn is a hook that runs commands on another client.
type runOn struct{ rdb *redis.Client }

func (h runOn) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h runOn) ProcessHook(redis.ProcessHook) redis.ProcessHook { return h.rdb.Process }

func (h runOn) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := h.rdb.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}
