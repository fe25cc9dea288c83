package address

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Prefixes are masked, disjoint and sorted by address.
type Prefixes []netip.Prefix

// NewPrefixes returns the Prefixes with the addresses of all, which are masked. It changes all.
func NewPrefixes(all []netip.Prefix) Prefixes {
	// Sort by address, and a wider prefix before a narrower prefix with the same address. The
	// prefixes that a prefix contains then follow it directly.
	slices.SortFunc(all, netip.Prefix.Compare)
	disjoint := all[:0]
	for _, prefix := range all {
		if n := len(disjoint); n == 0 || !disjoint[n-1].Contains(prefix.Addr()) {
			disjoint = append(disjoint, prefix)
		}
	}
	return disjoint
}

// Find returns the prefix that contains addr, which must be unmapped and without a zone.
func (p Prefixes) Find(addr netip.Addr) (prefix netip.Prefix, ok bool) {
	// Only the last prefix that starts at or before addr can contain it.
	i, found := slices.BinarySearchFunc(p, addr, func(prefix netip.Prefix, addr netip.Addr) int {
		return prefix.Addr().Compare(addr)
	})
	if !found {
		i--
	}
	if i < 0 || !p[i].Contains(addr) {
		return netip.Prefix{}, false
	}
	return p[i], true
}

// ParsePrefix returns a CIDR prefix or a single address, unmapped.
func ParsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("%q is neither an IP address nor a CIDR prefix", s)
		}
		if addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone, which is not compared: leave it out", s)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR prefix such as 10.0.0.0/8", s)
	}
	if masked := prefix.Masked(); prefix != masked {
		return netip.Prefix{}, fmt.Errorf("%q has bits set beyond its prefix: write %q for the network or %q for the one address",
			s, masked, prefix.Addr())
	}
	if addr := prefix.Addr(); addr.Is4In6() {
		// A mapped prefix without host bits has at least 96 bits.
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix, nil
}
