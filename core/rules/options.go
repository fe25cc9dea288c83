package rules

import "github.com/weir-go/weir/core/internal/argument"

// An Option configures a [Set].
type Option interface{ argument.Option[Set] }

// OnChange calls f after every [Set.Apply] that has changed the configuration, one call at a time
// and in the order of the changes. Apply returns after f. f must not call Apply.
func OnChange(f func(Change)) Option {
	argument.NotNil("rules: OnChange", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onChange = f })
}

// OnError calls f with the errors of [Set.Watch], once for each error of a source and once for each
// text that cannot be applied, and with errors of [Overrides], once for each outage that Watch or a
// decision notices, and for overrides that are read and invalid, at most ten times in a second. f is
// called concurrently.
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
	return argument.OptionFunc[Set](func(s *Set) { s.overrides = source })
}
