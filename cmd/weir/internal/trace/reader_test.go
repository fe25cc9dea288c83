package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
	"github.com/weir-go/weir/internal/testkit"
)

// Files of several formats are merged by their times, in whatever order they are named.
func TestReader_Merge(t *testing.T) {
	dir := t.TempDir()
	second := func(n int) string { return fmt.Sprintf("02/Jan/2026:15:04:%02d +0000", n) }
	line := func(n int, key string) string {
		return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 1\n", key, second(n))
	}
	older := file(t, dir, "log.1.gz", compressed(line(5, "a")+line(7, "b"))+compressed(line(6, "c")+line(20, "d")))
	newer := file(t, dir, "log", line(20, "e")+line(30, "f"))
	other := file(t, dir, "other.json", `{"ts":1767366255,"key":"g"}`+"\n"+`{"ts":1767366265,"key":"h"}`) // 15:04:15
	empty := file(t, dir, "empty", "")
	noEvent := file(t, dir, "notes", "a\n\nb\n")
	wanted := []string{"0 a 1 _ GET /", "1000000 c 1 _ GET /", "2000000 b 1 _ GET /", "10000000 g 1 _ _", "15000000 d 1 _ GET /", "15000000 e 1 _ GET /", "20000000 h 1 _ _", "25000000 f 1 _ GET /"}
	for _, files := range [][]string{{older, newer, other, empty, noEvent}, {empty, noEvent, older, other, newer}} {
		r := trace.New(trace.Options{})
		for range 2 { // the second time is another reading
			want(t, read(r, files...), wanted)
			s := r.Stats()
			if r.Err() != nil || s.Events != 8 || s.Broken != 2 || s.Lines != 10 || s.Late != 0 || s.Read != s.Total || s.Total == 0 {
				t.Errorf("got %+v, %v", s, r.Err())
			}
		}
	}
	// At the same time, the first file is first.
	want(t, read(trace.New(trace.Options{}), newer, older), []string{"0 a 1 _ GET /", "1000000 c 1 _ GET /", "2000000 b 1 _ GET /", "15000000 e 1 _ GET /", "15000000 d 1 _ GET /", "25000000 f 1 _ GET /"})
	want(t, read(trace.New(trace.Options{})), nil)
	want(t, read(trace.New(trace.Options{}), empty), nil)
}

func TestReader_Stats(t *testing.T) {
	_, s := readText(t, trace.Options{}, "time,key,status\n\n2,a,429\n1,b,200\nx,c,429\n100,d,429\n3,e,\n")
	if s.Lines != 5 || s.Events != 4 || s.Broken != 1 || s.Limited != 2 || s.Late != 0 || s.First != 1e6 || s.Last != 100e6 || s.Fractions || s.Total != 0 {
		t.Errorf("got %+v", s)
	}
	_, s = readText(t, trace.Options{}, "1,a\n100.5,b\n2,c\n0,d\n")
	if s.Late != 1 || s.First != 1e6 || s.Last != 100.5e6 || !s.Fractions {
		t.Errorf("got %+v", s)
	}
	_, s = readText(t, trace.Options{}, "1,a\n"+strings.Repeat("x,a\n", 10))
	if s.Broken != 10 || len(s.Samples) != 5 || s.Samples[4].Line != 6 || s.Samples[0].File != "-" {
		t.Errorf("got %+v", s)
	}
	s.Samples[0].Line = 0 // a copy
	if r := trace.New(trace.Options{Stdin: strings.NewReader("x\n")}); read(r, "-") == nil {
		r.Stats().Samples[0].Line = 7
		if r.Stats().Samples[0].Line != 1 {
			t.Error("the samples of one result are those of the next one")
		}
	}
}

func TestReader_Excerpt(t *testing.T) {
	for line, expected := range map[string]string{
		`a "b" \c é`:                  `a "b" \c é`,
		"\x00\x1b[31m\x7f\xff\u202e":  `\x00\x1b[31m\x7f\xff\u202e`,
		strings.Repeat("x", 80):       strings.Repeat("x", 80),
		strings.Repeat("x", 81):       strings.Repeat("x", 77) + "...",
		strings.Repeat("é", 41):       strings.Repeat("é", 38) + "...",
		strings.Repeat("\xff", 30):    strings.Repeat(`\xff`, 19) + "...",
		strings.Repeat("x", 70000):    strings.Repeat("x", 77) + "...",
		strings.Repeat("x", 2000_000): strings.Repeat("x", 77) + "...",
	} {
		_, s := readText(t, trace.Options{}, line+"\n1,a\n")
		if s.Events != 1 || s.Samples[0].Text != expected {
			t.Errorf("of %.20q, got %q, want %q", line, s.Samples[0].Text, expected)
		}
	}
}

// Lines up to 1 MiB are read. Longer ones are broken, without being kept.
func TestReader_LongLines(t *testing.T) {
	line := func(n int) string { return "1767366245,ann,1,," + strings.Repeat("x", n-18) }
	for n, whole := range map[int]bool{64<<10 - 1: true, 64 << 10: true, 64<<10 + 1: true, 1<<20 - 1: true, 1 << 20: true, 1<<20 + 1: false, 1<<20 + 64<<10: false, 3 << 20: false} {
		for _, end := range []string{"", "\n", "\r\n", "\n1767366246,bob\n"} {
			events, s := readText(t, trace.Options{}, line(n)+end)
			bob := strings.Contains(end, "bob")
			if (len(events) > 0 && strings.HasPrefix(events[0], "0 ann 1 _ xxx")) != whole || bob && events[len(events)-1] != "1000000 bob 1 _ _" {
				t.Errorf("a line of %d bytes before %q: got %d events", n, end, len(events))
			}
			if !whole && (s.Broken != 1 || s.Samples[0].Reason != "the line is longer than 1 MiB") {
				t.Errorf("a line of %d bytes before %q: got %+v", n, end, s)
			}
		}
	}
}

func TestReader_Errors(t *testing.T) {
	dir := t.TempDir()
	good := file(t, dir, "good", "1,a\n2,b\n")
	empty := file(t, dir, "empty", "")
	header := file(t, dir, "header", "time,key\n1,a\n")
	log := file(t, dir, "log", `a - - [02/Jan/2026:15:04:05 +0000] "GET / HTTP/1.1" 200 5`)
	const logFields = "its fields are remote_addr, remote_user, time_local, request, status, body_bytes_sent, http_referer, http_user_agent, http_x_forwarded_for"
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		options trace.Options
		files   []string
		is      error  // or
		text    string // the whole text
		events  int
	}{
		{name: "missing", files: []string{good, dir + "/missing"}, is: fs.ErrNotExist},
		{name: "a directory", files: []string{good, dir}, text: "read " + dir + ": is a directory"},
		{name: "twice", files: []string{"-", good, "-"}, text: "the standard input is named twice"},
		{name: "gzip header", files: []string{file(t, dir, "x.gz", "\x1f\x8bx")}, text: dir + "/x.gz: unexpected EOF"},
		{name: "gzip cut off", files: []string{file(t, dir, "y.gz", compressed("1,a\n100,b\n")[:20])}, is: io.ErrUnexpectedEOF},
		{name: "reading", options: trace.Options{Stdin: io.MultiReader(strings.NewReader("1,a\n100,b\n200,c\n"), iotest.ErrReader(broken))}, files: []string{"-"}, is: broken, events: 1},
		{name: "reading at once", options: trace.Options{Stdin: iotest.ErrReader(broken)}, files: []string{"-"}, text: "-: broken"},
		{name: "column", options: trace.Options{Fields: trace.Fields{Key: "user"}}, files: []string{header}, text: header + `: no header with a column "user"`},
		{name: "no header", options: trace.Options{Fields: trace.Fields{Request: "route"}}, files: []string{good}, text: good + `: no header with a column "route"`},
		{name: "log", options: trace.Options{Fields: trace.Fields{Key: "user"}}, files: []string{log}, text: log + `: a log has no field "user"; ` + logFields},
		{name: "log with a cost", options: trace.Options{Fields: trace.Fields{Cost: "bytes"}}, files: []string{log}, text: log + `: a log has no field "bytes"; ` + logFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := trace.New(c.options)
			events := read(r, c.files...)
			err := r.Err()
			if err == nil || c.is != nil && !errors.Is(err, c.is) || c.text != "" && err.Error() != c.text {
				t.Errorf("got the error %v", err)
			}
			if len(events) != c.events {
				t.Errorf("got %d events before the error, want %d", len(events), c.events)
			}
			if got := read(r, empty); got != nil || r.Err() != nil {
				t.Errorf("in the next reading: got %q, %v", got, r.Err())
			}
		})
	}
}

// A traffic that is stopped closes its files, and is not continued.
func TestReader_Stop(t *testing.T) {
	name := file(t, t.TempDir(), "trace", "1,a\n100,b\n200,c\n300,d\n")
	r := trace.New(trace.Options{})
	for range 10_000 { // more than the files that a process may open
		for e := range r.Files([]string{name}) {
			if e.Key == "b" {
				break
			}
		}
		if s := r.Stats(); r.Err() != nil || s.Events != 2 || s.Last != 100e6 {
			t.Fatalf("got %+v, %v", s, r.Err())
		}
	}
}

// Other goroutines can see the progress.
func TestReader_Progress(t *testing.T) {
	name := file(t, t.TempDir(), "trace", strings.Repeat("1767366245,ann,1,pro,GET /\nx\n", 20_000))
	r := trace.New(trace.Options{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		last := trace.Stats{}
		for {
			s := r.Stats()
			if s.Read < last.Read || s.Lines < last.Lines || s.Lines != s.Events+s.Broken || s.Read > s.Total && s.Total > 0 || r.Err() != nil {
				t.Errorf("got %+v after %+v", s, last)
			}
			last = s
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	read(r, name)
	close(stop)
	wg.Wait()
	if s := r.Stats(); s.Read != s.Total || s.Events != 20_000 || s.Broken != 20_000 {
		t.Errorf("got %+v", s)
	}
}

// A repeated is the content of a file with n times the text of line, which gets a number.
type repeated struct {
	line func(b []byte, i int) []byte
	n, i int
	rest []byte
	text []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.i == r.n {
			return 0, io.EOF
		}
		r.text = r.text[:0]
		for range min(1000, r.n-r.i) {
			r.text = r.line(r.text, r.i)
			r.i++
		}
		r.rest = r.text
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// The memory does not depend on the length of a trace, also if all keys and requests are different.
func TestReader_Memory(t *testing.T) {
	r := trace.New(trace.Options{Stdin: &repeated{n: 300_000, line: func(b []byte, i int) []byte {
		return fmt.Appendf(b, "%d.%03d,user-%d,1,,GET /items/%d\n", 1767366245+i/1000, i%1000, i, i)
	}}})
	begin, most := testkit.Heap(), int64(0)
	n := 0
	for range r.Files([]string{"-"}) {
		if n++; n%75_000 == 0 {
			most = max(most, testkit.Heap())
		}
	}
	// 60,000 events wait, of 88 bytes and two texts; twice, because the order is compacted at times.
	if kept := most - begin; n != 300_000 || kept > 48<<20 {
		t.Errorf("%d events, and %d MiB are in use", n, kept>>20)
	}
}

// Long keys and requests are shortened, and stay different.
func TestReader_LongTexts(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	events, _ := readText(t, trace.Options{}, fmt.Sprintf("1767366245,%sa,1,%s,GET /%s\n1767366245,%sb,1,%s,GET /%s\n1767366245,%sa,1,%s,GET /%s\n", long, long, long, long, long, long, long, long, long))
	if len(events) != 3 {
		t.Fatalf("got %d events, expected 3", len(events))
	}
	for _, e := range events {
		if len(e) > 4000 || !strings.Contains(e, "GET /xxx") {
			t.Errorf("got an event of %d bytes, %.20q, expected at most 4000, and the beginning of the request", len(e), e)
		}
	}
	if events[0] == events[1] || events[0] != events[2] {
		t.Error("got other events for the same key, or the same for other keys")
	}
}

// An event is not changed before the next one.
func TestReader_Events(t *testing.T) {
	content := bytes.Repeat([]byte("1,ann,1,pro,GET /a\n100,bob,2,,POST /b\n"), 1000)
	var kept []simulate.Event
	for e := range trace.New(trace.Options{Stdin: bytes.NewReader(content)}).Files([]string{"-"}) {
		kept = append(kept, *e)
	}
	for i := range content { // the events do not share the memory of the lines
		content[i] = 'x'
	}
	bobs := 0
	for _, e := range kept {
		switch e.Key + e.Plan + e.Request {
		case "annproGET /a":
		case "bobPOST /b":
			bobs++
		default:
			t.Fatalf("got %+v", e)
		}
	}
	if len(kept) != 2000 || bobs != 1000 {
		t.Errorf("got %d events, %d of bob", len(kept), bobs)
	}
}
