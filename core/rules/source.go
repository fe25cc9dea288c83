package rules

import (
	"context"
	"fmt"
)

// A Source provides the text of a configuration, for example from a file ([File]) or a row of a
// database. If it has a method String, the result is the name of the source in errors.
type Source interface {
	// Load returns the present text, which the caller does not change. One Watch makes one call at a
	// time. An error means that there is no text, or that it could not be read.
	Load(ctx context.Context) ([]byte, error)
}

// Load reads the configuration of a source, for [New]. Errors in the text are those of [Parse].
func Load(ctx context.Context, s Source) (*Config, error) {
	text, err := s.Load(ctx)
	if err != nil {
		return nil, unreadable(s, err)
	}
	return Parse(nameOf(s), text)
}

func unreadable(s Source, err error) error {
	return fmt.Errorf("weir: configuration of %s: %w", nameOf(s), err)
}

func nameOf(s Source) string {
	if named, ok := s.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", s)
}
