package similar

import "fmt"

// Nearest returns `; did you mean "b"?` for the element of names that is similar to name, or else
// list.
func Nearest(name string, names []string, list string) string {
	const compared = 1000 // a file with many names and errors is not searched for long
	best, at := min(3, len(name)), ""
	for _, n := range names[:min(len(names), compared)] {
		if d := distance(name, n); d < best {
			best, at = d, n
		}
	}
	if at == "" {
		return list
	}
	return fmt.Sprintf("; did you mean %q?", at)
}

// distance returns the number of bytes to insert, remove or replace in a to get b (Levenshtein), or
// a large number if one of them is long.
func distance(a, b string) int {
	const long = 64
	if max(len(a), len(b)) > long {
		return long
	}
	var row [long + 1]int
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, replaced)
		}
	}
	return row[len(b)]
}
