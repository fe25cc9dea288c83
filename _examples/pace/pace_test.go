package pace

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// A burst of four blocks is written at once, and four more blocks take as long as the limit needs for them.
func TestWriter(t *testing.T) {
	const size = 8*block - 1
	data := bytes.Repeat([]byte("0123456789abcdef"), block)[:size]
	limit := core.Must(core.New(memstore.New(), core.TokenBucket("bytes", core.PerSecond(8*block).WithBurst(4*block)).Unit("bytes")))
	left := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := New(w, r, w, limit, "user:ann")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.Copy(p, bytes.NewReader(data)); err != nil {
			t.Error(err)
		}
		left <- p.Left()
	}))
	defer server.Close()

	begin := time.Now()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes and %v, want %d", len(got), err, size)
	}
	if d := time.Since(begin); d < 400*time.Millisecond {
		t.Errorf("took %v, want about half a second", d)
	}
	if n := <-left; n != 1 {
		t.Errorf("%d bytes of the last block are left, want 1", n)
	}
}
