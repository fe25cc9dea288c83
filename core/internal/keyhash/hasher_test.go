package keyhash

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// The tags are those of openssl dgst.
func TestHasher_Tag(t *testing.T) {
	for _, c := range []struct{ secret, key, want string }{
		{"", "user:1", "q8Oke4rRi4VcaH2cosYJHg"}, {"", "", "47DEQpj8HBSa-_TImW-5JA"},
		{"a secret of sixteen or more", "user:1", "ReleIqma5P2gug232rnC7Q"},
	} {
		h := New([]byte(c.secret))
		if c.secret == "" {
			h = New(nil)
		}
		for range 2 {
			if got := h.Tag(c.key); got != c.want || len(got) != TagLen {
				t.Errorf("%q with the secret %q: got %q, want %q", c.key, c.secret, got, c.want)
			}
		}
	}
}

func TestHasher_OrHash(t *testing.T) {
	for _, h := range []Hasher{New(nil), New([]byte("a secret of sixteen or more"))} {
		tag := h.Tag("user:1")
		if got := h.OrHash().Tag("#" + tag); got != tag || h.Tag("#"+tag) == tag || h.OrHash().Tag("user:1") != tag {
			t.Errorf("got %q for #%s", got, tag)
		}
		for _, key := range []string{"#", "##" + tag[1:], "#" + tag + "x", tag, "#" + tag[1:] + "+"} {
			if h.OrHash().Tag(key) != h.Tag(key) {
				t.Errorf("%q is a hash", key)
			}
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	CheckPrefix("f", "")
	CheckPrefix("f", strings.Repeat("p", 32))
	testkit.Panics(t, "f: longer than 32 bytes", func() { CheckPrefix("f", strings.Repeat("p", 33)) })
	testkit.Panics(t, "f: contains a brace", func() { CheckPrefix("f", "a{") })
	testkit.Panics(t, "f: contains a brace", func() { CheckPrefix("f", "}a") })
}

func TestCopySecret(t *testing.T) {
	secret := []byte("sixteen bytes...")
	c := CopySecret("f", secret)
	if secret[0] = 0; string(c) != "sixteen bytes..." {
		t.Errorf("got %q, which has changed with the original", c)
	}
	testkit.Panics(t, "f: shorter than 16 bytes", func() { CopySecret("f", secret[1:]) })
}

// The slots are those of CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	for tag, want := range map[string]uint16{"": 0, "123456789": 12739, "user:1": 10778} {
		if got := Slot(tag); got != want {
			t.Errorf("%q: got %d, want %d", tag, got, want)
		}
	}
}
