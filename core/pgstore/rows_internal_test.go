package pgstore

import (
	sqldriver "database/sql/driver"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/internal/testkit"
)

var (
	keyA, keyB, keyC = casstore.Key{1}, casstore.Key{2}, casstore.Key{0xab, 15: 0xcd}
	changeA          = casstore.Change{Key: keyA, Version: 7, Next: 8, State: []byte{1}, Expires: 9}
	changeB          = casstore.Change{Key: keyB, Next: 5, State: []byte{2}, Expires: 10}
)

func TestLiteral(t *testing.T) {
	for want, got := range map[string]string{
		"{}":                      literal(nil).text(),
		"{-1}":                    literal(nil).int(-1).text(),
		"{1,9223372036854775807}": literal(nil).int(1).int(1<<63 - 1).text(),
		`{"\\x","\\x00ff22"}`:     literal(nil).bytes(nil).bytes([]byte{0, 255, '"'}).text(),
		"{" + keyA.String() + "," + "ab000000-0000-0000-0000-0000000000cd}": ids([]casstore.Key{keyA, keyC}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Read has the rows in the order of the keys, and the last of their times.
func TestRows_Read(t *testing.T) {
	f := &fake{reply: func(query string, args []string) ([][]sqldriver.Value, error) {
		if want := ids([]casstore.Key{keyA, keyB, keyC}); !strings.Contains(query, "weir_states") || args[0] != want {
			return nil, errors.New("unexpected statement " + query)
		}
		return [][]sqldriver.Value{
			{int64(3), int64(5), []byte{4}, int64(100)}, {int64(1), int64(6), []byte{}, int64(102)}, {int64(2), int64(0), nil, int64(101)},
		}, nil
	}}
	r := New(f.open(t), "test").rows
	r.sweeper.running.Store(true) // or the sweeper would start
	rows, now, err := r.Read(t.Context(), []casstore.Key{keyA, keyB, keyC})
	testkit.Must(t, err)
	if want := []casstore.Row{{Version: 6, State: []byte{}}, {}, {Version: 5, State: []byte{4}}}; now != 102 || !reflect.DeepEqual(rows, want) {
		t.Errorf("got %v at %d, want %v", rows, now, want)
	}
}

// One statement swaps rows that change alone. Another one places the rows that a group lacks.
func TestRows_Swap(t *testing.T) {
	var calls [][]string
	f := &fake{reply: func(query string, args []string) ([][]sqldriver.Value, error) {
		calls = append(calls, args)
		return [][]sqldriver.Value{{int64(1)}}, nil
	}}
	r := New(f.open(t), "test").rows
	done, err := r.Swap(t.Context(), []casstore.Group{{changeA}, {changeB}})
	testkit.Must(t, err)
	if want := [][]string{{ids([]casstore.Key{keyA, keyB}), "{8,5}", "{9,10}", `{"\\x01","\\x02"}`, "{0,1}"}}; !reflect.DeepEqual(calls, want) || !reflect.DeepEqual(done, []bool{false, true}) {
		t.Errorf("the statements were %q, and done is %v", calls, done)
	}
	calls = nil
	other := casstore.Change{Key: keyC, Version: 1, Next: 9}
	done, err = r.Swap(t.Context(), []casstore.Group{{changeA, changeB}, {other}})
	testkit.Must(t, err)
	if len(calls) != 2 || f.count("DO NOTHING") != 1 || calls[0][0] != ids([]casstore.Key{keyB}) || !reflect.DeepEqual(done, []bool{false, true}) {
		t.Fatalf("the statements were %q, and done is %v", calls, done)
	}
	placed := strings.Trim(calls[0][1], "{}")
	if want := []string{ids([]casstore.Key{keyA, keyB, keyC}), "{8,5,9}", "{9,10,0}", `{"\\x01","\\x02","\\x"}`, "{0,0,1}", "{7," + placed + ",1}"}; !reflect.DeepEqual(calls[1], want) {
		t.Errorf("the statement is %q, want %q", calls[1], want)
	}
}

// After an error, nothing is done, also if rows have arrived before it. No statement is repeated.
func TestRows_SwapError(t *testing.T) {
	for _, cause := range []error{stateError("57014"), stateError("40001"), sqldriver.ErrBadConn} {
		for _, rows := range [][][]sqldriver.Value{nil, {{int64(0)}}} {
			f := &fake{reply: func(string, []string) ([][]sqldriver.Value, error) { return rows, cause }}
			done, err := New(f.open(t), "test").rows.Swap(t.Context(), []casstore.Group{{changeA}})
			if done != nil || !errors.Is(err, cause) || errors.Is(err, casstore.ErrConflict) != (cause == stateError("40001")) || len(f.queries) != 1 {
				t.Errorf("after %v: done is %v, the error %v, and the statements %q", cause, done, err, f.queries)
			}
		}
	}
}

var errAny = errors.New("any error")

// Update places rows, locks them in a transaction, and changes them.
func TestRows_Update(t *testing.T) {
	for _, c := range []struct {
		name  string
		group casstore.Group
		found int64 // the number of the group that the statement returns
		fails string
		full  bool
		want  []string
		err   error
	}{
		{"changes", casstore.Group{changeA}, 0, "", false, []string{"DO NOTHING", "begin Read Committed", "FOR UPDATE OF", "DO UPDATE", "commit"}, nil},
		{"no changes", nil, 0, "", false, []string{"DO NOTHING", "begin Read Committed", "FOR UPDATE OF", "rollback"}, nil},
		{"a deadlock", casstore.Group{changeA}, 0, "FOR UPDATE OF", false, []string{"DO NOTHING", "begin Read Committed", "FOR UPDATE OF", "rollback"}, casstore.ErrConflict},
		{"another row", casstore.Group{changeA}, -1, "", false, []string{"DO NOTHING", "begin Read Committed", "FOR UPDATE OF", "DO UPDATE", "rollback"}, errAny},
		{"full", casstore.Group{changeA}, 0, "", true, []string{"begin Read Committed", "FOR UPDATE OF", "DO UPDATE", "commit"}, nil},
		{"absent", casstore.Group{changeA, changeB}, 0, "", true, []string{"begin Read Committed", "FOR UPDATE OF", "rollback", "DO NOTHING"}, casstore.ErrConflict},
		{"no commit", casstore.Group{changeA}, 0, "commit", false, []string{"DO NOTHING", "begin Read Committed", "FOR UPDATE OF", "DO UPDATE", "commit"}, casstore.ErrConflict},
	} {
		f := &fake{reply: func(query string, _ []string) ([][]sqldriver.Value, error) {
			switch {
			case c.fails != "" && strings.Contains(query, c.fails):
				return nil, stateError("40P01")
			case strings.Contains(query, "FOR UPDATE OF"):
				return [][]sqldriver.Value{{int64(1), int64(7), []byte{}, int64(0)}, {int64(0), int64(0), nil, int64(100)}}, nil
			case strings.Contains(query, "DO UPDATE") && c.found >= 0:
				return [][]sqldriver.Value{{c.found}}, nil
			}
			return nil, nil
		}}
		r := New(f.open(t), "test", MaxRows(1)).rows
		if c.full {
			r.sweeper.rows.Store(1)
		}
		err := r.Update(t.Context(), []casstore.Key{keyA}, func(rows []casstore.Row, now int64) casstore.Group {
			if now != 100 || rows[0].Version != 7 {
				t.Errorf("%s: got %v at %d", c.name, rows, now)
			}
			return c.group
		})
		if !errors.Is(err, c.err) && (c.err != errAny || err == nil) || len(f.queries) != len(c.want) {
			t.Errorf("%s: the error is %v, and the statements %q", c.name, err, f.queries)
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(f.queries[i], part) {
				t.Errorf("%s: the statement %d is %s, want %s", c.name, i, f.queries[i], part)
			}
		}
	}
}
