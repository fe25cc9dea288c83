package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"io"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// defineSimulate defines the flags of weir simulate, and returns the command.
func defineSimulate(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	var t traffic
	t.define(flags)
	policy := definePolicy(flags)
	asJSON := flags.Bool("json", false, "print JSON")
	top := flags.Int("top", 10, "the `NUMBER` of keys to list, those with the most denials")
	names := defineNames(flags)
	return func(args []string, stdout, stderr io.Writer) error {
		config, err := load(args[0])
		if err != nil {
			return err
		}
		s, err := newSimulation(config, *policy)
		if err != nil {
			return err
		}
		var free *simulation // without bans
		if config := withoutBans(config); config != nil {
			if free, err = newSimulation(config, *policy); err != nil {
				return err
			}
		}
		ctx, byBans := context.Background(), uint64(0)
		err = t.read(args[1:], s.rules(), stderr, func(e *simulate.Event) error {
			d, err := s.decide(ctx, e)
			if free == nil || err != nil {
				return err
			}
			without, err := free.decide(ctx, e)
			if without.Allowed && !d.Allowed {
				byBans++
			}
			return err
		})
		if err := cmp.Or(err, s.check()); err != nil {
			return err
		}
		r := newSimulated(s, &t, names(), *top)
		r.DeniedByBans = byBans
		if *asJSON {
			return writeJSON(stdout, r)
		}
		return r.write(stdout)
	}
}

func definePolicy(flags *flag.FlagSet) *string {
	return flags.String("policy", "", "the `NAME` of the policy of requests that no route of the file matches; without it, the only policy")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
