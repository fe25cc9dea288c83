package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// A site is the example with a check that counts. The password of each user is "right".
type site struct {
	http.Handler
	mu       sync.Mutex
	verified map[string]int // wrong passwords of each user
}

func newSite(store core.Store) *site {
	s := &site{verified: map[string]int{}}
	s.Handler = newHandler(store, func(user, password string) bool {
		if password == "right" {
			return true
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.verified[user]++
		return false
	})
	return s
}

// guesses returns the number of wrong passwords that were verified.
func (s *site) guesses() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, user := range s.verified {
		n += user
	}
	return n
}

func (s *site) send(address, path, mediaType, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	r.RemoteAddr = address + ":1234"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const formType = "application/x-www-form-urlencoded"

// A door sends a user and a password in one of the two encodings.
type door struct {
	send            func(s *site, address, user, password string) *httptest.ResponseRecorder
	success, failed string // results, as result returns them
	deniedType      string // Content-Type of the response to a denial
}

var doors = map[string]door{
	"form": {
		send: func(s *site, address, user, password string) *httptest.ResponseRecorder {
			return s.send(address, "/login", formType, url.Values{"user": {user}, "password": {password}}.Encode())
		},
		success: "303 /", failed: "303 /login?failed=1", deniedType: "text/html; charset=utf-8",
	},
	"JSON": {
		send: func(s *site, address, user, password string) *httptest.ResponseRecorder {
			body, _ := json.Marshal(map[string]string{"user": user, "password": password})
			return s.send(address, "/api/login", "application/json", string(body))
		},
		success: "204", failed: "401", deniedType: "application/problem+json",
	},
}

// result returns the status and the Location of a response.
func result(w *httptest.ResponseRecorder) string {
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Location")))
}

func retryAfter(t *testing.T, w *httptest.ResponseRecorder) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	if w.Code != 429 || err != nil {
		t.Fatalf("got status %d with Retry-After %q, want a denial", w.Code, w.Header().Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// address returns the i-th address.
func address(i int) string { return fmt.Sprintf("198.51.%d.%d", i/256, i%256) }

func TestLogin_WrongPasswords(t *testing.T) {
	for name, d := range doors {
		for _, c := range []struct {
			name          string
			address, user func(i int) string
		}{
			{"of a user from many addresses", address, func(int) string { return "victim" }},
			{"of many users from an address", func(int) string { return "192.0.2.1" }, func(i int) string { return fmt.Sprint("user", i) }},
			{"of a user from an address", func(int) string { return "192.0.2.1" }, func(int) string { return "victim" }},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(memstore.New())
					for i := range 20 {
						want := d.failed
						if i >= 5 {
							want = "429"
						}
						if got := result(d.send(s, c.address(i), c.user(i), "wrong")); got != want {
							t.Fatalf("wrong password %d: got %s, want %s", i, got, want)
						}
					}
					if n := s.guesses(); n != 5 {
						t.Errorf("%d of 20 wrong passwords were verified, want 5", n)
					}
					w := d.send(s, c.address(0), c.user(0), "right")
					if got := w.Header().Get("Content-Type"); got != d.deniedType {
						t.Errorf("a denial: got Content-Type %s, want %s", got, d.deniedType)
					}
					if got := w.Header().Get("RateLimit"); got != "" {
						t.Errorf("a denial: got RateLimit %s, which tells how often others have failed", got)
					}
					time.Sleep(retryAfter(t, w))
					if got := result(d.send(s, c.address(0), c.user(0), "right")); got != d.success {
						t.Errorf("the right password after Retry-After: got %s, want %s", got, d.success)
					}
				})
			})
		}
	}
}

// All limits hold in any span, for a program that waits for every Retry-After.
func TestLogin_PatientGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSite(memstore.New()), doors["form"]
		begin := time.Now()
		var after []time.Duration // of each guess that was verified
		for i := 0; time.Since(begin) < 24*time.Hour && len(after) < 100; i++ {
			if w := d.send(s, address(i), "victim", "wrong"); w.Code == 429 {
				time.Sleep(retryAfter(t, w))
			} else {
				after = append(after, time.Since(begin).Round(time.Minute))
			}
		}
		want := []time.Duration{0, 0, 0, 0, 0, 1, 1, 1, 15, 15, 15, 15}
		for i := range want {
			want[i] *= time.Minute
		}
		if fmt.Sprint(after) != fmt.Sprint(want) {
			t.Errorf("guesses were verified after %v, want %v", after, want)
		}
	})
}

func TestLogin_SuccessesAreNotCounted(t *testing.T) {
	for name, d := range doors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(memstore.New())
				for i := range 50 {
					if got := result(d.send(s, "192.0.2.1", "alice", "right")); got != d.success {
						t.Fatalf("login %d: got %s, want %s", i, got, d.success)
					}
				}
				for range 5 {
					d.send(s, "192.0.2.1", "alice", "wrong")
				}
				if n := s.guesses(); n != 5 {
					t.Errorf("%d wrong passwords were verified after the successes, want 5", n)
				}
			})
		})
	}
}

// A success resets the failures of the user, but not those of the address.
func TestLogin_SuccessResetsUser(t *testing.T) {
	for name, d := range doors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(memstore.New())
				for range 4 {
					d.send(s, "192.0.2.1", "alice", "wrong")
				}
				if got := result(d.send(s, "192.0.2.1", "alice", "right")); got != d.success {
					t.Fatalf("the right password after 4 failures: got %s, want %s", got, d.success)
				}
				for i := range 20 {
					d.send(s, address(i), "alice", "wrong")
				}
				if n := s.guesses(); n != 4+5 {
					t.Errorf("%d wrong passwords of the user were verified, want 5 before the success and 4 after it", n)
				}
				for i := range 20 {
					d.send(s, "192.0.2.1", fmt.Sprint("user", i), "wrong")
				}
				if n := s.guesses(); n != 4+5+1 {
					t.Errorf("%d wrong passwords were verified, want 5 for the address", n)
				}
			})
		})
	}
}

// An attacker logs in to an own account after every fourth guess and, when the address is denied, waits
// for Retry-After. The successes free nothing for the guesses.
func TestLogin_AttackerWithAccount(t *testing.T) {
	for name, d := range doors {
		for _, c := range []struct {
			name   string
			victim func(i int) string
			lasts  time.Duration
			want   int
		}{
			{"guesses at one user at once", func(int) string { return "victim" }, 0, 5},
			{"guesses at many users at once", func(i int) string { return fmt.Sprint("victim", i) }, 0, 5},
			{"guesses at one user for a day", func(int) string { return "victim" }, 24 * time.Hour, 12},
			{"guesses at many users for a day", func(i int) string { return fmt.Sprint("victim", i) }, 24 * time.Hour, 12},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(memstore.New())
					begin, own := time.Now(), 0
					for i := range 750 {
						w := d.send(s, "192.0.2.1", c.victim(i), "wrong")
						if i%4 == 3 && result(d.send(s, "192.0.2.1", "attacker", "right")) == d.success {
							own++
						}
						if w.Code != 429 {
							continue
						}
						if wait := retryAfter(t, w); time.Since(begin)+wait < c.lasts {
							time.Sleep(wait)
						}
					}
					if n := s.guesses(); n != c.want {
						t.Errorf("%d of 750 guesses were verified, want %d", n, c.want)
					}
					if own == 0 {
						t.Error("the attacker never logged in to the own account")
					}
				})
			})
		}
	}
}

// A body in which the limit and the handler could find different users is rejected, and counts as a
// failure of the address.
func TestLogin_Decoys(t *testing.T) {
	for name, c := range map[string]struct{ path, mediaType, body string }{
		"two names of different case in JSON":  {"/api/login", "application/json", `{"user":"x","USER":"victim","password":"wrong"}`},
		"two names in JSON":                    {"/api/login", "application/json", `{"user":"x","user":"victim","password":"wrong"}`},
		"a letter that folds to s in JSON":     {"/api/login", "application/json", `{"user":"x","uſer":"victim","password":"wrong"}`},
		"two objects in JSON":                  {"/api/login", "application/json", `{"user":"x"}{"user":"victim","password":"wrong"}`},
		"a list in JSON":                       {"/api/login", "application/json", `{"user":["victim"],"password":"wrong"}`},
		"a form for the API":                   {"/api/login", formType, `user=x&password=wrong`},
		"two names in the form":                {"/login", formType, "user=x&user=victim&password=wrong"},
		"a name in the URL":                    {"/login?user=x", formType, "user=victim&password=wrong"},
		"a name in the URL only":               {"/login?user=victim", formType, "password=wrong"},
		"JSON for the form":                    {"/login", "application/json", `{"user":"x","password":"wrong"}`},
		"no name":                              {"/login", formType, "password=wrong"},
		"a blank name":                         {"/login", formType, "user=+%09&password=wrong"},
		"a form of more than 64 KiB":           {"/login", formType, "user=victim&password=" + strings.Repeat("x", 1<<16)},
		"another encoding in a multipart form": {"/login", "multipart/form-data", "user=victim&password=wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(memstore.New())
				for i := range 20 {
					want := 400
					if i >= 5 {
						want = 429
					}
					if got := s.send("192.0.2.1", c.path, c.mediaType, c.body).Code; got != want {
						t.Fatalf("decoy %d: got status %d, want %d", i, got, want)
					}
				}
				if n := s.guesses(); n != 0 {
					t.Errorf("%d decoys were verified, want 0", n)
				}
			})
		})
	}
}

// A number is a name for the limit, but not for the handler.
func TestLogin_NumberForName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(memstore.New())
		for i, want := range []int{401, 401, 401, 401, 401, 429} {
			if got := s.send("192.0.2.1", "/api/login", "application/json", `{"user":7,"password":"right"}`).Code; got != want {
				t.Errorf("attempt %d: got status %d, want %d", i, got, want)
			}
		}
	})
}

// All spellings that the application looks up as one user, in both encodings, have one limit.
func TestLogin_Spellings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(memstore.New())
		i := 0
		for _, user := range []string{"victim", "VICTIM", "Victim", " victim", "victim\t", "\u00a0ViCtIm\r\n", "\u2003victim"} {
			for _, d := range doors {
				d.send(s, address(i), user, "wrong")
				i++
			}
		}
		for _, body := range []string{`{"user":"\u0056ictim"}`, `{"USER":"vict\u0069m"}`, `{"uſer":"victim"}`} {
			s.send(address(i), "/api/login", "application/json", body)
			i++
		}
		if n := s.verified["victim"]; n != 5 || len(s.verified) != 1 {
			t.Errorf("the wrong passwords %v were verified, want 5 of victim", s.verified)
		}
	})
}

// Guesses that run at the same time never exceed the limits, while other logins succeed.
func TestLogin_Concurrent(t *testing.T) {
	for name, c := range map[string]struct{ address, user func(i int) string }{
		"one user":    {address, func(int) string { return "victim" }},
		"one address": {func(int) string { return "192.0.2.1" }, func(i int) string { return fmt.Sprint("victim", i) }},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with an own account %t", name, own), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(memstore.New())
					guess := func(i int) {
						for _, d := range doors {
							d.send(s, c.address(i), c.user(i), "wrong")
						}
					}
					var wg sync.WaitGroup
					for i := range 64 {
						wg.Go(func() { guess(i) })
						if own {
							wg.Go(func() { doors["form"].send(s, c.address(i), "attacker", "right") })
						}
					}
					wg.Wait()
					if n := s.guesses(); n > 5 || !own && n < 5 {
						t.Errorf("%d guesses were verified, want 5", n)
					}
					for i := range 20 { // a login that succeeds takes the place of a guess while it runs
						guess(i)
					}
					if n := s.guesses(); n != 5 {
						t.Errorf("%d guesses were verified in the end, want 5", n)
					}
				})
			})
		}
	}
}

func TestLogin_StoreFails(t *testing.T) {
	for name, d := range doors {
		t.Run(name, func(t *testing.T) {
			s := newSite(new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable)))
			if got := result(d.send(s, "192.0.2.1", "alice", "wrong")); got != "503" || s.guesses() != 0 {
				t.Errorf("got %s and %d verified passwords, want 503 and 0", got, s.guesses())
			}
		})
	}
}

func TestHints(t *testing.T) {
	p := demotest.Start(t)
	p.Do(t, "GET", "/").WantStatus(t, 200)
	if a := p.Do(t, "GET", "/login?failed=1"); !strings.Contains(a.Body, "No such user") || !strings.Contains(a.Body, "<form") {
		t.Errorf("got the page %s, want a form and the failure", a.Body)
	}
	lines := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	_, root, _ := strings.Cut(p.Output(), "Listening on ")
	root, _, _ = strings.Cut(root, " ")
	demotest.RunHints(t, p,
		lines(8, "303 "+root+"/")+lines(5, "303 "+root+"/login?failed=1")+lines(2, "429 "),
		"HTTP/1.1 429 ", "Try again in ", `"violated-policies":["address-minute","user-minute"]`)
}
