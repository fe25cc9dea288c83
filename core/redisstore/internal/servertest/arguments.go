package servertest

import "strconv"

// TakeArguments returns the arguments of a script that makes any takes, behind its keys, for those of the script for
// decisions about one bucket each, which leaves out the ones that it knows.
func TakeArguments(args []string) []string {
	all := args[:1:1] // the clock
	for rest := args[1:]; len(rest) > 0; {
		size := 2 + 5 // the number of decisions, the op, and five arguments of a bucket
		if rest[6] != "1" {
			size += 3 // fractions
		}
		all = append(all, rest[0], "1", strconv.Itoa(size), "bucket")
		all, rest = append(all, rest[1:size]...), rest[size:]
	}
	return all
}
