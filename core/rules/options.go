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
// text that cannot be applied. Without OnError, Watch logs the errors through
// [log/slog.Default] at level Error.
func OnError(f func(error)) Option {
	argument.NotNil("rules: OnError", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onError = f })
}
