package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A board is the hash of the switches in a Redis that executes nothing else.
type board struct {
	mu    sync.Mutex
	text  any // nil if there are none
	err   error
	looks int
}

func (b *board) do(_ context.Context, args ...any) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return nil, b.err
	case args[1] == nowScript.SHA:
		return int64(1700000000000), nil
	case args[1] == SwitchScript.SHA:
		b.looks++
		text, _ := b.text.(string)
		return text, nil
	case args[1] == changeScript.SHA:
		if before, _ := b.text.(string); before != args[5] {
			return int64(0), nil
		}
		b.text = args[6]
		return int64(1), nil
	}
	return nil, errors.New("ERR unknown command")
}

func (b *board) set(text any, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, b.err = text, err
}

// A Counter follows the switches within two seconds, keeps them in an outage, and is on if Redis has lost them.
func TestCounter_Off(t *testing.T) {
	const (
		apiOff, allOff, allOn = `{"change":1,"off":[{"rule":"api","by":"ann","reason":"it denies all","since":1}]}`, `{"change":3,"off":[{"rule":"*"}]}`, `{"change":2,"on":{"rule":"api","by":"bob","since":2}}`
		off                   = "level=WARN msg=\"weir: limits are off\" off="
		lost                  = "level=ERROR msg=\"weir: Redis has lost the switches, so limits that were off are in force; weir off turns them off again\" off_before="
	)
	type step struct {
		text any // in Redis
		err  error
	}
	for name, c := range map[string]struct {
		steps []step
		want  string // whether the rules api, api.day and login are off
		log   string
	}{
		"never":              {nil, "false false false", ""},
		"a policy":           {[]step{{apiOff, nil}}, "true true false", off + "[api] by=ann reason=\"it denies all\"\n"},
		"all":                {[]step{{allOff, nil}}, "true true true", off + "[*] by=\"\" reason=\"\"\n"},
		"a rule":             {[]step{{`{"change":1,"off":[{"rule":"api.day"}]}`, nil}}, "false true false", off + "[api.day] by=\"\" reason=\"\"\n"},
		"on again":           {[]step{{apiOff, nil}, {allOn, nil}}, "false false false", off + "[api] by=ann reason=\"it denies all\"\nlevel=INFO msg=\"weir: limits that were off are in force\" off_before=[api] by=bob reason=\"\"\n"},
		"an outage":          {[]step{{allOff, nil}, {nil, errors.New("EOF")}}, "true true true", off + "[*] by=\"\" reason=\"\"\n"},
		"lost":               {[]step{{allOff, nil}, {nil, nil}}, "false false false", off + "[*] by=\"\" reason=\"\"\n" + lost + "[*] off=[]\n"},
		"lost in an outage":  {[]step{{allOff, nil}, {nil, errors.New("EOF")}, {nil, nil}}, "false false false", off + "[*] by=\"\" reason=\"\"\n" + lost + "[*] off=[]\n"},
		"lost, an older one": {[]step{{allOff, nil}, {apiOff, nil}}, "true true false", off + "[*] by=\"\" reason=\"\"\n" + lost + "[*] off=[api]\n"},
		"lost, a newer one": {
			[]step{{allOff, nil}, {`{"begun":9,"change":9,"off":[{"rule":"api"}]}`, nil}}, "true true false", off + "[*] by=\"\" reason=\"\"\n" + lost + "[*] off=[api]\n",
		},
		"lost, while all was on": {[]step{{allOn, nil}, {nil, nil}}, "false false false", ""},
		"not well formed": {
			[]step{{allOff, nil}, {"x", nil}}, "true true true",
			off + "[*] by=\"\" reason=\"\"\nlevel=WARN msg=\"weir: a part of the record of processes was ignored\" error=\"the record of the processes is not well formed: the switches\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, log := new(board), new(testkit.Buffer)
				logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}}))
				counter := New(NewRecord(b.do, "weir:", "shop"), Config{
					Follows: true, Log: func() *slog.Logger { return logger }, Unknown: func() {}, Refused: func(error) string { return "" },
				})
				counter.Declare(driver.Change{})
				counter.Declare(declares("api"))
				for _, step := range c.steps {
					b.set(step.text, step.err)
					time.Sleep(1500 * time.Millisecond)
				}
				time.Sleep(3 * time.Second)
				if got := fmt.Sprint(counter.Off("api"), counter.Off("api.day"), counter.Off("login")); got != c.want || log.String() != c.log {
					t.Errorf("got %s and\n%swant %s and\n%s", got, log, c.want, c.log)
				}
				if n := counter.Switches(); (n > 0) != strings.Contains(c.want, "true") {
					t.Errorf("got %d switches", n)
				}
				b.set(nil, nil)
				counter.Close()
				if b.looks > 2*(len(c.steps)+3) {
					t.Errorf("got %d looks", b.looks)
				}
			})
		})
	}
}

// Operators who change the switches at one time do not lose a change.
func TestRecord_Change(t *testing.T) {
	b := new(board)
	r := NewRecord(b.do, "weir:", "shop")
	testkit.Concurrently(32, func(i int) {
		_, err := r.Change(t.Context(), func(s *Switches, _ int64) { s.Off = append(s.Off, Switch{Rule: fmt.Sprint("r", i)}) })
		if err != nil {
			t.Error(err)
		}
	})
	s, err := r.Switches(t.Context())
	if err != nil || len(s.Off) != 32 || s.Change != 1700000000031 || s.Begun != 1700000000000 {
		t.Errorf("got %d switches and the change %d, %v", len(s.Off), s.Change, err)
	}
	if _, err := r.Change(t.Context(), func(s *Switches, _ int64) { s.Off = make([]Switch, MaxSwitches+1) }); !errors.Is(err, ErrSwitches) {
		t.Errorf("too many: got %v", err)
	}
	b.set("not well formed", nil)
	if _, err := r.Change(t.Context(), func(s *Switches, _ int64) {
		s.Off = []Switch{{Rule: "x", Reason: strings.Repeat("\x01", maxSwitches/6)}}
	}); !errors.Is(err, ErrSwitches) {
		t.Errorf("too long: got %v", err)
	}
	if s, err := r.Change(t.Context(), func(s *Switches, _ int64) { s.Off = append(s.Off, Switch{Rule: AllLimits}) }); err != nil || len(s.Off) != 1 {
		t.Errorf("over text that is not well formed: got %+v, %v", s, err)
	}
}

func FuzzParseSwitches(f *testing.F) {
	for _, text := range []string{`{"change":1}`, `{"change":2,"off":[{"rule":"*","by":"ann","reason":"x","since":1}]}`, `{"change":-1}`, `{"change":1,"off":[{}]}`, "[]", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSwitches(text)
		if err != nil && (s.Change != 0 || s.Off != nil) || err == nil && (s.Change < 1 || len(s.Off) > MaxSwitches) {
			t.Errorf("got %+v, %v", s, err)
		}
		_ = s.isOff("api.day")
	})
}
