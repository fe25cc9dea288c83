// Program static writes the page of weir playground into a directory, for a server of files: index.html,
// playground.wasm and wasm_exec.js. make playground runs it.
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/playground/page"
)

const (
	program = "github.com/weir-go/weir/cmd/weir/internal/playground/wasm"
	maxSize = 4_600_000 // bytes of playground.wasm
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: static DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "static:", err)
		os.Exit(1)
	}
}

// write writes the files into dir, and prints their sizes to w.
func write(dir string, w io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := run("env", "GOROOT")
	if err != nil {
		return err
	}
	runtime, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	if _, err := run("build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "playground.wasm"), program); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"index.html": page.Static(), "wasm_exec.js": runtime} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"index.html", "wasm_exec.js", "playground.wasm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%9d  %s\n", info.Size(), filepath.Join(dir, name))
		if info.Size() > maxSize {
			return fmt.Errorf("%s has more than %d bytes", name, maxSize)
		}
	}
	return nil
}

// run runs the go command for js/wasm and returns its output.
func run(args ...string) (string, error) {
	c := exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
	c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	c.Stderr = os.Stderr
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}
