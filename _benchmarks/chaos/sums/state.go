package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// The formats of the states are those in core/redisstore/internal/wire/lua. A value is that of the key in Redis: a string, a
// map for a hash, or nil if the key does not exist.

// decodeQuota reads the state of a quota or a fixed window: the end and the length of the period, in 7 bytes each, and the
// count, in 6 bytes, big-endian.
func decodeQuota(value any) (int, error) {
	if value == nil {
		return 0, nil
	}
	text, ok := value.(string)
	if !ok || len(text) != 20 {
		return 0, fmt.Errorf("the state %q has a wrong format", value)
	}
	return int(binary.BigEndian.Uint64([]byte("\x00\x00" + text[14:]))), nil
}

// decodeSlidingWindow adds up the sub-windows, and compares the sum with the total in the field t. The fields o and l
// are the numbers of the first and the last sub-window.
func decodeSlidingWindow(value any) (int, error) {
	if value == nil {
		return 0, nil
	}
	fields, ok := value.(map[string]string)
	if !ok {
		return 0, fmt.Errorf("the state %q has a wrong format", value)
	}
	sum, total := 0, 0
	for name, text := range fields {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("the field %s: %w", name, err)
		}
		switch name {
		case "o", "l":
		case "t":
			total = n
		default:
			sum += n
		}
	}
	if sum != total {
		return 0, fmt.Errorf("the sub-windows have %d units, and the total is %d", sum, total)
	}
	return total, nil
}
