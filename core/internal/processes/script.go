package processes

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// A Script is a script of Redis.
type Script struct {
	Source, SHA string
}

// constants are inserted into scripts.
var constants = strings.NewReplacer(
	"FAR_FUTURE", strconv.FormatInt(1<<53/1000, 10),
	"RULE_LIFETIME", milliseconds(RuleLifetime),
	"FIGURES_LIFETIME", milliseconds(FiguresLifetime),
	"LIFETIME", milliseconds(Lifetime),
	"MAX_GROUPS", strconv.Itoa(MaxGroups),
	"MAX_SWITCHES", strconv.Itoa(maxSwitches),
	"MAX_NAME", strconv.Itoa(maxName),
	"MAX_TEXT", strconv.Itoa(maxText),
	"MAX_PUBLISHED", strconv.Itoa(maxPublished),
	"MAX_FIGURES", strconv.Itoa(maxFigures),
	"MAX_DENIED", strconv.Itoa(maxDenied),
	"GROUP_OF_ALL", "'"+All+"'",
	"GROUP_OF_NONE", "'"+None+"'",
)

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

//go:embed clock.lua
var clockFile string

func newScript(file string) *Script {
	source := constants.Replace(strings.Replace(file, "INCLUDE clock", clockFile, 1))
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:])}
}

// command returns the command that executes s.
func (s *Script) command(name, text string, keys []string, args []any) []any {
	all := []any{name, text, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
}

// run executes s.
func (r Record) run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	reply, err := r.Do(ctx, s.command("evalsha", s.SHA, keys, args)...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = r.Do(ctx, s.command("eval", s.Source, keys, args)...)
	}
	return reply, err
}
