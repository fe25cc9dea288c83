package trace_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

// BenchmarkReader reads one line in each iteration, of 5000 clients with 1000 events a second.
func BenchmarkReader(b *testing.B) {
	address := func(i int) string { return fmt.Sprintf("198.51.%d.%d", i*7%5000/250, i*7%250) }
	for _, c := range []struct {
		name string
		line func(b []byte, i int) []byte
	}{
		{"combined", func(b []byte, i int) []byte {
			return fmt.Appendf(b, "%s - - [02/Jan/2026:15:%02d:%02d +0000] \"GET /items/%d?page=2 HTTP/1.1\" 200 5316 \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n", address(i), i/60_000%60, i/1000%60, i%300)
		}},
		{"JSON", func(b []byte, i int) []byte {
			return fmt.Appendf(b, "{\"time\":%d.%03d,\"remote_addr\":%q,\"method\":\"GET\",\"uri\":\"/items/%d?page=2\",\"status\":200,\"bytes\":5316,\"user_agent\":\"Mozilla/5.0 (X11; Linux x86_64; rv:140.0)\",\"duration\":0.013}\n", 1767366245+i/1000, i%1000, address(i), i%300)
		}},
		{"Caddy", func(b []byte, i int) []byte {
			return fmt.Appendf(b, `{"level":"info","ts":%d.%03d,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":%q,"remote_port":"42614","client_ip":%[3]q,"proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/items/%d?page=2","headers":{"Accept":["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],"Accept-Encoding":["gzip, deflate, br, zstd"],"Accept-Language":["en-US,en;q=0.5"],"User-Agent":["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"],"Sec-Fetch-Mode":["navigate"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Encoding":["gzip"],"Content-Type":["text/html; charset=utf-8"],"Vary":["Accept-Encoding"]}}`+"\n", 1767366245+i/1000, i%1000, address(i), i%300)
		}},
		{"CSV", func(b []byte, i int) []byte {
			return fmt.Appendf(b, "%d.%03d,%s,1,pro,GET /items/%d\n", 1767366245+i/1000, i%1000, address(i), i%300)
		}},
		{"quoted CSV", func(b []byte, i int) []byte {
			return fmt.Appendf(b, "\"%d.%03d\",%q,\"1\",\"pro\",\"GET /items/%d\"\n", 1767366245+i/1000, i%1000, address(i), i%300)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			lines, err := io.ReadAll(&repeated{n: 100_000, line: c.line})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(lines) / 100_000))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				r := trace.New(trace.Options{Stdin: bytes.NewReader(lines)})
				for range r.Files([]string{"-"}) {
					if n++; n == b.N {
						break
					}
				}
				if s := r.Stats(); s.Broken != 0 || s.Late != 0 || r.Err() != nil {
					b.Fatalf("%+v, %v", s, r.Err())
				}
			}
		})
	}
}
