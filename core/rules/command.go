package rules

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// Command returns the line that runs weir rules with args, such as "unblock", "api" and "user:7", in a shell (bash,
// zsh, fish or another one of POSIX), for the overrides and the configuration of s: with the flag -app, and -config,
// -redis, -cluster and -prefix as far as they are necessary. It is for pages and messages for operators.
//
// The line contains no secret. If the client of Redis has a password, the line has no -redis: the
// environment of the operator then needs WEIR_REDIS_URL, and WEIR_KEY_SECRET if the source has a
// [KeySecret].
//
// Command returns an error if s has no source of overrides (see [Overrides]), or if an argument
// contains a character that controls a terminal, or a space of Unicode.
func (s *Set) Command(args ...string) (string, error) {
	if s.source == nil {
		return "", errNoOverrides
	}
	app, words := s.source.overrides.App, []string{"weir", "rules"}
	if name := s.Config().Name; name != "" && name != s.source.String() {
		words = append(words, "-config", name)
	}
	words = append(words, flagsOf(app.Client)...)
	words = append(words, "-app", app.Name)
	if beginning := strings.TrimSuffix(app.Prefix, app.Name+":"); beginning != DefaultPrefix {
		words = append(words, "-prefix", beginning)
	}
	words = append(words, args...)
	for i, w := range words {
		if strings.ContainsFunc(w, hidden) {
			return "", errors.New("weir: an argument of the command contains a control character")
		}
		words[i] = quoted(w)
	}
	return strings.Join(words, " "), nil
}

// flagsOf returns the flags with which weir rules reaches the Redis of a client. A single server without
// a password has a URL; for all others it is in WEIR_REDIS_URL.
func flagsOf(rdb redis.UniversalClient) []string {
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		return []string{"-cluster"}
	case *redis.Client:
		o := c.Options()
		secret := o.Username != "" || o.Password != "" || o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
		if o.Network != "tcp" || secret || !strings.Contains(o.Addr, ":") { // or "FailoverClient"
			return nil
		}
		u := url.URL{Scheme: "redis", Host: o.Addr}
		if o.TLSConfig != nil {
			u.Scheme = "rediss"
		}
		if o.DB != 0 {
			u.Path = strconv.Itoa(o.DB)
		}
		return []string{"-redis", u.String()}
	}
	return nil
}

// hidden reports whether c is a character that a terminal does not show as it is, or that a browser copies
// as another one, such as the spaces of Unicode.
func hidden(c rune) bool {
	return c != ' ' && unicode.IsSpace(c) || unicode.In(c, unicode.Cc, unicode.Cf) || c == unicode.ReplacementChar
}

// quoted returns a word that the shells of POSIX, zsh and fish read as text. A backslash between single
// quotes would be special in fish, a word that begins with = in zsh, and a comma or an @ in PowerShell.
func quoted(text string) string {
	special := func(c rune) bool {
		return c >= unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_./:+", c)
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + quotes.Replace(text) + "'"
}

var quotes = strings.NewReplacer("'", `'\''`, `\`, `'"\\"'`)
