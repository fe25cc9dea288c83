package penalties

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/memstore"
)

func TestNewLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewLogin(memstore.New(), func(_, password string) bool { return password == "right" })
		attempt := func(password string) (status int, retry string) {
			r := httptest.NewRequest("POST", "/login", strings.NewReader("user=ann&password="+password))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Header().Get("Retry-After")
		}
		for i, want := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 30 * time.Minute, time.Minute} {
			for range 5 {
				if status, _ := attempt("wrong"); status != http.StatusUnauthorized {
					t.Fatalf("penalty %d: a failure got %d", i, status)
				}
			}
			status, retry := attempt("right")
			if status != http.StatusTooManyRequests || retry != fmt.Sprint(want.Seconds()) {
				t.Fatalf("penalty %d: got %d, Retry-After %s, want %v", i, status, retry, want)
			}
			time.Sleep(want)
			if i == 3 { // the success forgives
				if status, _ := attempt("right"); status != http.StatusOK {
					t.Fatalf("after the penalty: got %d", status)
				}
			}
		}
	})
}
