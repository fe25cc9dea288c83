package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// The link of the example file is that of a release, whose schema does not change.
func TestSchemaLine(t *testing.T) {
	for version, want := range map[string]string{
		"v0.2.1":  "# yaml-language-server: $schema=https://raw.githubusercontent.com/weir-go/weir/refs/tags/core/rules/v0.2.1/core/rules/weir.schema.json\n\n",
		"(devel)": "", "v0.0.0-20261129000000-abcdefabcdef": "", "": "",
	} {
		if got := schemaLine(&debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/m", Version: "v9.0.0"}, {Path: "github.com/weir-go/weir/core/rules", Version: version}}}); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
	replaced := &debug.Module{Path: "github.com/weir-go/weir/core/rules", Version: "v0.1.0", Replace: &debug.Module{Path: "../rules"}}
	if got := schemaLine(&debug.BuildInfo{Deps: []*debug.Module{replaced}}) + schemaLine(nil); got != "" {
		t.Errorf("got %q, want none", got)
	}
	if strings.Contains(example, "https://") {
		t.Error("the example has a link of its own")
	}
}
