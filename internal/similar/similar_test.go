package similar_test

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/similar"
)

func TestKeys(t *testing.T) {
	for key, want := range map[string][]string{
		"ann":            {"basic:ann", "user:ann"},
		" ann ":          {"ann", "basic:ann", "user:ann"},
		"user:ann":       {"ann", "basic:ann"},
		"basic:ann":      {"ann", "user:ann"},
		"user:a:b":       {"a:b"},
		"body:ann":       {},
		"2001:db8::1":    {"2001:db8::/64"},
		"2001:db8::/64":  {},
		"[2001:db8::1]":  {"2001:db8::/64"},
		"203.0.113.7":    {"basic:203.0.113.7", "user:203.0.113.7"},
		"203.0.113.7:80": {"203.0.113.7"},
		"":               {},
		"user:":          {},
	} {
		if got := similar.Keys(key); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestIsHash(t *testing.T) {
	for text, want := range map[string]bool{
		"9rhOPXL9bXlaY1XTdv1-_w":  true,
		"#9rhOPXL9bXlaY1XTdv1-_w": true,
		"##rhOPXL9bXlaY1XTdv1-_w": false,
		"9rhOPXL9bXlaY1XTdv1-_":   false,
		"9rhOPXL9bXlaY1XTdv1-_ww": false,
		"user:0123456789abcdefg":  false, // of the same length
		"#":                       false,
		"":                        false,
	} {
		if similar.IsHash(text) != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
}
