package trace

import (
	"slices"
	"strings"
)

// A columns has the positions of each field in a line, in the order in which their names count.
type columns [fields][]int

// columnsOf returns the positions of the fields of f in lines whose fields are called header. missing is a name that
// f has and header does not, or "".
func columnsOf(f Fields, header []string) (c columns, missing string) {
	for field, names := range f.names() {
		for _, name := range names {
			i := slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(h, name) })
			if i >= 0 {
				c[field] = append(c[field], i)
			}
		}
	}
	for field, name := range f.chosen() {
		if name != "" && len(c[field]) == 0 {
			return c, name
		}
	}
	return c, ""
}

// fill sets the fields of rec to their values.
func (c *columns) fill(values [][]byte, rec *record) {
	for field, positions := range c {
		for _, i := range positions {
			if i < len(values) && rec.offer(field, values[i]) {
				break
			}
		}
	}
}
