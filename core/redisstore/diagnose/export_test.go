package diagnose

import (
	"slices"
	"strings"
)

// ScriptCommands returns the commands of the check of commands as permissions.
func ScriptCommands() []string {
	var names []string
	for _, c := range scriptCommands {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, "+"+strings.ToLower(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
