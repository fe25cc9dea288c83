package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// checkArguments replaces redis.call and redis.pcall by functions that fail if an argument is a
// large number, because Lua writes numbers with 14 digits, and on some servers with an exponent. A
// time has more digits. The binary member of a log may begin like a number.
const checkArguments = `
local function checked(f)
  return function(...)
    for i = 1, select('#', ...) do
      local argument = select(i, ...)
      local small = type(argument) == 'number' and argument % 1 == 0 and argument > -100000 and argument < 100000
      if not small and (type(argument) ~= 'string' or string.find(argument, '^%(?%-?%d+[.e][%d.e+]*$')) then
        error('argument ' .. i .. ' of ' .. (...) .. ' is unsafe: ' .. tostring(argument), 0)
      end
    end
    return f(...)
  end
end
local redis = { call = checked(redis.call), pcall = checked(redis.pcall) }
`

// An argumentChecker is a hook that sends scripts with checkArguments.
type argumentChecker struct{}

func (argumentChecker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (argumentChecker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (argumentChecker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); args[0] {
		case "evalsha":
			return errors.New("NOSCRIPT: so that the Store sends the source")
		case "eval":
			args[1] = checkArguments + args[1].(string)
		}
		return next(ctx, cmd)
	}
}

// TestConformance runs the suite on a Cluster. On a single server, TestACL_DocumentedUser runs it.
func TestConformance(t *testing.T) {
	t.Parallel()
	rdb := redistest.SharedCluster(t).Client()
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		h := harness(rdb)
		h.Undoes = true
		return h
	})
}
