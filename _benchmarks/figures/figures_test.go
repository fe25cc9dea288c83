package figures

import (
	"path/filepath"
	"slices"
	"testing"
)

var some = Figures{
	{"memory", "floor", "hot key", 26, "26 ns"},
	{"memory", "weir", "hot key", 141, "141 ns, 1 x"},
	{"memory", "weir", "1M keys", 293, "293 ns"},
	{"Redis", "weir", "p50", 1.5, "1.5 ms"},
}

func TestMarkdown(t *testing.T) {
	const want = "| | hot key | 1M keys |\n|---|---|---|\n| floor | 26 ns | |\n| **weir** | **141 ns, 1 x** | **293 ns** |\n"
	if got := some.Markdown("memory"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSet(t *testing.T) {
	got := slices.Clone(some)
	got.Set(Figure{"memory", "floor", "hot key", 1, "1 ns"})
	got.Set(Figure{"Redis", "peer", "p50", 3, "3 ms"})
	if len(got) != 5 || got[0].Value != 1 || got.Get("Redis", "peer", "p50").Text != "3 ms" {
		t.Errorf("got %v", got)
	}
}

func TestBeside(t *testing.T) {
	now := Figures{{"memory", "weir", "hot key", 90, "90 ns"}, {"memory", "weir", "another", 1, "1 ns"}}
	got := now.Beside(some)
	if got[0].Text != "90 ns (141 ns, 1 x)" || got[1] != now[1] || now[0].Text != "90 ns" {
		t.Errorf("got %v of %v", got, now)
	}
}

func TestReadWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.csv")
	if err := some.Write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(file); err != nil || !slices.Equal(got, some) {
		t.Errorf("got %v, %v, want %v", got, err, some)
	}
	if _, err := Read("figures_test.go"); err == nil {
		t.Error("another file: got no error")
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7.6: "8", 999: "999", 1004: "1 000", 47183: "47 200", 1_746_000: "1 750 000"} {
		if got := Thousands(n); got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}
