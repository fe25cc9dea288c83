package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
)

// checkArguments replaces redis.call and redis.pcall by functions that fail if an argument of
// a command is not safe: Lua writes a number with 14 digits, which is not enough for a time,
// and on some servers with an exponent.
const checkArguments = `
local function checked(f)
  return function(...)
    for i = 1, select('#', ...) do
      local argument = select(i, ...)
      local small = type(argument) == 'number' and argument % 1 == 0 and argument > -100000 and argument < 100000
      if not small and (type(argument) ~= 'string' or string.find(argument, '^%(?%-?%d+%.') or string.find(argument, '^%(?%-?%d+e')) then
        error('argument ' .. i .. ' of ' .. (...) .. ' is unsafe: ' .. tostring(argument), 0)
      end
    end
    return f(...)
  end
end
local call, pcall, format = checked(redis.call), checked(redis.pcall), string.format
`

// argumentChecker is a hook that sends scripts with checkArguments.
type argumentChecker struct{ t *testing.T }

func (argumentChecker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (argumentChecker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h argumentChecker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		const line = "local call, pcall, format = redis.call, redis.pcall, string.format\n"
		switch args := cmd.Args(); args[0] {
		case "evalsha":
			return errors.New("NOSCRIPT: sends the source")
		case "eval":
			source := args[1].(string)
			if strings.Count(source, line) != 1 {
				h.t.Errorf("a script does not have the line %q once", line)
			}
			args[1] = strings.Replace(source, line, checkArguments, 1)
		}
		return next(ctx, cmd)
	}
}

// Numbers reach Redis with all their digits.
func TestConformance_ArgumentsOfCommands(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	rdb.AddHook(argumentChecker{t})
	storetest.Run(t, func(*testing.T) *storetest.Harness { return harness(rdb) })
}
