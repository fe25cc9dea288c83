package rules

import "github.com/weir-go/weir/internal/argument"

// An Option configures a [Set].
type Option interface{ argument.Option[Set] }

// OnChange calls f after every [Set.Apply] that has changed the configuration, one call at a time
// and in the order of the changes. Apply returns after f. f must not call Apply.
func OnChange(f func(Change)) Option {
	argument.NotNil("rules: OnChange", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onChange = f })
}

// OnError calls f, concurrently, with the errors of [Set.Watch] and [Overrides]:
//
//   - an error of the source: once, and again after a success
//   - a text that cannot be applied: once
//   - an outage of the overrides, which Watch or a decision notices: once
//   - an [ErrKeySecret]: when Watch reads all overrides
//   - an invalid override: each time that it is read, at most ten times in a second
//
// Without OnError, the errors are logged through [log/slog.Default] at level Error.
func OnError(f func(error)) Option {
	argument.NotNil("rules: OnError", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onError = f })
}

// Overrides makes a Set use the overrides of single keys that are in source, in addition to those
// of its configuration, over which they have precedence. [Set.Override] and [Set.Block] write them.
// Run [Set.Watch], which reads their changes every second, whatever source it watches: without it,
// every key is read from Redis once in [MaxAge]. Overrides panics if source is nil.
func Overrides(source *RedisSource) Option {
	argument.NotNil("rules: Overrides", "source", source)
	return argument.OptionFunc[Set](func(s *Set) { s.source = source })
}
