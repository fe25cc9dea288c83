package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	programOfWeir = regexp.MustCompile(`^(?:go run (?:-C \S*cmd/weir \.|\S*/cmd/weir@\S+)|weir) (.*)$`)
	word          = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	assignment    = regexp.MustCompile(`^\w+=\S*$`)
	file          = regexp.MustCompile(`\.(yaml|csv|log)(\.gz)?$`)
	usageWord     = regexp.MustCompile(`\[[^\]]*\]|\S+`)
)

// Every command weir of a page, also in a workflow, has flags and arguments that exist. The commands
// without Redis are run in a directory with the files of the page above the command, if these are the
// files they name; in a console block, the lines below a command are its output, and those below
// "echo $?" its exit status. The files are the configurations, which are called limits.yaml unless they
// begin with a comment with another name, and the outputs of the command cat.
func TestDocs_Commands(t *testing.T) {
	weir := filepath.Join(t.TempDir(), "weir")
	command(t, filepath.Join(root, "cmd", "weir"), "go", "build", "-o", weir, ".")
	if t.Failed() {
		return
	}
	for _, p := range allPages(t) {
		dir := t.TempDir()
		for _, b := range p.blocks {
			switch {
			case isConfig(b):
				name := "limits.yaml"
				if m := regexp.MustCompile(`^# (\S+\.yaml)\n`).FindStringSubmatch(b.code); m != nil {
					name = m[1]
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(b.code), 0o644); err != nil {
					t.Fatal(err)
				}
			case b.lang == "sh" || b.lang == "console" || b.lang == "yaml":
				checkCommands(t, weir, dir, b)
			}
		}
	}
}

// checkCommands checks the commands of a block of sh or yaml, or of console with a "$ " before each command.
func checkCommands(t *testing.T, weir, dir string, b block) {
	lines := strings.Split(strings.ReplaceAll(b.code, "\\\n", " "), "\n")
	status := 0
	for i, line := range lines {
		var below []string // the output, in a console block
		if b.lang == "console" {
			rest, isCommand := strings.CutPrefix(line, "$ ")
			if !isCommand {
				continue
			}
			line = rest
			for _, l := range lines[i+1:] {
				if strings.HasPrefix(l, "$ ") {
					break
				}
				below = append(below, strings.TrimRight(l, " "))
			}
		}
		expected := strings.TrimSpace(strings.Join(below, "\n"))
		if name, ok := strings.CutPrefix(line, "cat "); ok && b.lang == "console" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(expected+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if line == "echo $?" && expected != strconv.Itoa(status) {
			t.Errorf("%s:%d: got the exit status %d, want %s", b.page, b.line, status, expected)
		}
		line, _, redirected := strings.Cut(line, " > ")
		line, _, commented := strings.Cut(line, " # ")
		if redirected || commented {
			expected = ""
		}
		for n, segment := range strings.Split(line, " | ") {
			args := argsOf(segment)
			if args == nil {
				continue
			}
			if problem := checkUsage(weir, args); problem != "" {
				t.Errorf("%s:%d: weir %s: %s", b.page, b.line, strings.Join(args, " "), problem)
				continue
			}
			if n > 0 || !local(dir, args) {
				continue
			}
			cmd := exec.Command(weir, args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			status = cmd.ProcessState.ExitCode()
			if got := trimLines(string(out)); expected != "" && got != expected {
				t.Errorf("%s:%d: weir %s: got\n%s\nwant\n%s", b.page, b.line, strings.Join(args, " "), got, expected)
			} else if expected == "" && err != nil {
				t.Errorf("%s:%d: weir %s: %v\n%s", b.page, b.line, strings.Join(args, " "), err, out)
			}
		}
	}
}

// argsOf returns the arguments of a command weir, or nil if text is another command.
func argsOf(text string) []string {
	words := word.FindAllString(strings.TrimSpace(text), -1)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	m := programOfWeir.FindStringSubmatch(strings.Join(words, " "))
	if m == nil {
		return nil
	}
	args := word.FindAllString(m[1], -1)
	for i := range args {
		args[i] = strings.Trim(args[i], `'"`)
	}
	return args[:slices.IndexFunc(append(args, "|"), func(s string) bool { return s == "|" || s == "&&" || s == "||" })]
}

func trimLines(s string) string {
	return strings.TrimSpace(regexp.MustCompile(`(?m) +$`).ReplaceAllString(s, ""))
}

// checkUsage returns a problem if weir has no such command or flag, or the command another number of
// arguments.
func checkUsage(weir string, args []string) string {
	// The usage of a command follows flags that exist.
	var flags, rest []string
	for i := 0; i < len(args); i++ {
		switch {
		case !strings.HasPrefix(args[i], "-") || args[i] == "-" || len(rest) > 2 && rest[0] == "rules":
			rest = append(rest, args[i])
		default:
			flags = append(flags, args[i])
			if !strings.Contains(args[i], "=") && i+1 < len(args) && hasValue(weir, rest, args[i]) {
				i++
				flags = append(flags, args[i])
			}
		}
	}
	if len(rest) == 0 {
		return "no command"
	}
	name := rest[:1]
	if rest[0] == "rules" && len(rest) > 1 {
		name = rest[:2]
	}
	out, err := exec.Command(weir, slices.Concat(name, flags, []string{"-h"})...).CombinedOutput()
	if err != nil {
		return string(out)
	}
	n := len(rest) - len(name)
	for line := range strings.SplitSeq(string(out), "\n") {
		usage, found := strings.CutPrefix(line, "  weir "+strings.Join(name, " ")+" ")
		if !found {
			continue
		}
		usage, _, _ = strings.Cut(usage, "  ")
		words := usageWord.FindAllString(usage, -1)
		least := 0
		for _, w := range words {
			if !strings.HasPrefix(w, "[") {
				least++
			}
		}
		if n >= least && (n <= len(words) || strings.Contains(usage, "...")) {
			return ""
		}
	}
	return "another number of arguments:\n" + string(out)
}

// hasValue reports whether the usage of a command names a value of the flag.
func hasValue(weir string, command []string, flag string) bool {
	out, _ := exec.Command(weir, append(slices.Clone(command[:min(len(command), 2)]), "-h")...).CombinedOutput()
	return regexp.MustCompile(`(?m)^  -` + regexp.QuoteMeta(strings.TrimLeft(flag, "-")) + ` \S`).Match(out)
}

// local reports whether weir can run with args in dir, without Redis and with files of the page.
func local(dir string, args []string) bool {
	switch args[0] {
	case "init":
		return true
	case "check", "diff", "explain", "simulate", "suggest":
		for _, arg := range args {
			if file.MatchString(arg) {
				if _, err := os.Stat(filepath.Join(dir, arg)); err != nil {
					return false
				}
			}
		}
		return true
	}
	return false
}
