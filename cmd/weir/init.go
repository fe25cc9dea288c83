package main

import (
	_ "embed"
	"io"
	"runtime/debug"
	"strings"
)

//go:embed example.yaml
var example string

func printExample(_ []string, stdout, _ io.Writer) error {
	info, _ := debug.ReadBuildInfo()
	_, err := io.WriteString(stdout, schemaLine(info)+example)
	return err
}

// schemaLine returns the line by which editors find the schema of the version of package rules in a program, or "" if it
// is no release.
func schemaLine(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/weir-go/weir/core/rules" && m.Replace == nil && strings.HasPrefix(m.Version, "v") && !strings.Contains(m.Version, "-") {
			return "# yaml-language-server: $schema=https://raw.githubusercontent.com/weir-go/weir/refs/tags/core/rules/" + m.Version + "/core/rules/weir.schema.json\n\n"
		}
	}
	return ""
}
