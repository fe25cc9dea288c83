package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write fails if the program is larger than maxSize.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var out strings.Builder
	if err := write(dir, &out); err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]string{"index.html": "<!DOCTYPE html>", "wasm_exec.js": "// Copyright", "playground.wasm": "\x00asm"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, []byte(begin)) || len(text) > maxSize || !strings.Contains(out.String(), name) {
			t.Errorf("%s has %d bytes %.20q; printed %q", name, len(text), text, out.String())
		}
	}
}
