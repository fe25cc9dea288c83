package demotest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RunHints runs the commands that p has printed, as a reader would who pastes
// them into a shell, and wants statuses to be among what they print.
func RunHints(t testing.TB, p *Process, statuses ...string) {
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-euc", script)
	sh.Env = append(os.Environ(), "no_proxy=*")
	sh.WaitDelay = patience
	out, err := sh.Output()
	if err != nil {
		t.Fatalf("the commands that the example prints fail: %v\n%s", err, script)
	}
	for _, s := range statuses {
		if !strings.Contains(string(out), s) {
			t.Errorf("the commands that the example prints never show %s:\n%s", s, out)
		}
	}
}
