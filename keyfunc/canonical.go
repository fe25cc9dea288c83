package keyfunc

import "fmt"

var errNoAddress = fmt.Errorf("%w: not an IP address", ErrNoKey)

// CanonicalIP is the key of an address that somebody else found: a framework, or
// a key function of your own. It reads what [RemoteIP] reads, brackets, ports
// and zones included, and treats it alike. Anything else is [ErrNoKey].
//
// The address is believed. Whether it should be is the caller's to know.
func CanonicalIP(address string, opts ...IPOption) (string, error) {
	c := newIPConfig("CanonicalIP", opts)
	addr, _, ok := parseAddr(address)
	if !ok {
		return "", errNoAddress
	}
	return c.key(addr), nil
}
