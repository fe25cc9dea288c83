package keyhash

import "testing"

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

// The slots are those of CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	for tag, want := range map[string]uint16{"": 0, "123456789": 12739, "user:1": 10778} {
		if got := Slot(tag); got != want {
			t.Errorf("%q: got %d, want %d", tag, got, want)
		}
	}
}
