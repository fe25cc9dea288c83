package demotest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RunHints runs the commands that p has printed, in a shell, and fails the test unless
// their output contains each of texts.
func RunHints(t testing.TB, p *Process, texts ...string) {
	t.Helper()
	for _, tool := range []string{"sh", "curl", "seq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: the commands that the example prints need %s", tool)
		}
	}
	_, script, ok := strings.Cut(p.Output(), "Try:\n")
	if !ok {
		t.Fatalf("the example prints no commands: %s", p.Output())
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-euc", script)
	sh.Env = append(os.Environ(), "no_proxy=*")
	sh.WaitDelay = timeout
	out, err := sh.Output()
	if err != nil {
		t.Fatalf("the commands that the example prints fail: %v\n%s", err, script)
	}
	for _, s := range texts {
		if !strings.Contains(string(out), s) {
			t.Errorf("the output of the commands that the example prints does not contain %s:\n%s", s, out)
		}
	}
}
