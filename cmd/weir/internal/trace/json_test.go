package trace_test

import (
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

func TestJSON(t *testing.T) {
	const caddy = `{"level":"info","ts":1767366246.0005001,"logger":"http.log.access","msg":"handled request","request":` +
		`{"remote_ip":"10.0.0.1","remote_port":"4711","client_ip":"2001:db8:1:2:3::4","proto":"HTTP/2.0","method":"POST",` +
		`"host":"example.com","uri":"/login?user=ann","headers":{"User-Agent":["curl/8 \"x\""],"Accept":["*/*"]}},` +
		`"bytes_read":0,"user_id":"","duration":0.0001,"size":10,"status":429,"resp_headers":{"Server":["Caddy"]}}`
	runFormat(t, []formatCase{
		{"names", trace.Options{}, []string{
			`{"time":"2026-01-02T15:04:05Z","key":"ann"}`, "0 ann 1 _ _",
			`{"ts":1767366245.000001,"key":"ann"}`, "1 ann 1 _ _",
			`{"timestamp":"1767366245.000002","client_ip":"192.0.2.1:80"}`, "2 192.0.2.1 1 _ _",
			`{"@timestamp":"2026-01-02T15:04:05.000003Z","remote_ip":"192.0.2.2"}`, "3 192.0.2.2 1 _ _",
			`{"time_iso8601":"2026-01-02T16:04:06+01:00","remote_addr":"192.0.2.3"}`, "1000000 192.0.2.3 1 _ _",
			`{"msec":"1767366246.123","request":{"client_ip":"192.0.2.4"}}`, "1123000 192.0.2.4 1 _ _",
			`{"msec":1767366247,"request":{"remote_ip":"192.0.2.5"}}`, "2000000 192.0.2.5 1 _ _",
			`{"msec":1767366247,"request.remote_ip":"192.0.2.6"}`, "2000000 192.0.2.6 1 _ _",
		}},
		{"values", trace.Options{}, []string{
			`{"time":1767366245,"key":7,"cost":3,"plan":"pro","request":"GET /a?b=c HTTP/1.1","status":429}`, "0 7 3 pro GET /a limited",
			`{"time":1767366245,"key":"\u0061\"b","cost":"4","plan":null,"method":"PUT","path":"/a","status":"429"}`, `0 a"b 4 _ PUT /a limited`,
			`{"time":1767366245,"key":true,"cost":null,"request_method":"GET","request_uri":"http://example.com/x?y","status":200}`, "0 true 1 _ GET /x",
			` {"t\u0069me" : 1767366245 , "\u006bey" : "a", "url" : "/u", "x" : [ { } , [ 1.5e-3 , -0 , false , null ] ] } `, "0 a 1 _ /u",
			`{"time":1767366245,"key":"a","plan":"-","route":"login","status":"-"}`, "0 a 1 _ login",
			`{"time":1767366245,"key":"-","client_ip":"","remote_ip":"::ffff:192.0.2.1"}`, "0 192.0.2.1 1 _ _",
			`{"time":1767366245,"key":["a"],"client_ip":{},"remote_ip":null,"remote_addr":"b"}`, "0 b 1 _ _",
			`{"time":1767366245,"key":"a","key":"b"}`, "0 b 1 _ _",
			`{"time":1767366245,"key":"a","request":"GET / HTTP/1.1","request":{"method":"PUT","uri":"/x"}}`, "0 a 1 _ PUT /x",
			`{"time":1767366245,"request":{"remote_ip":"a","method":"PUT"},"request":{"remote_ip":"b","uri":"/x"}}`, "0 b 1 _ /x",
		}},
		{"Caddy", trace.Options{}, []string{caddy, "1000500 2001:db8:1:2::/64 1 _ POST /login limited"}},
		{"chosen fields", trace.Options{Fields: trace.Fields{Time: "at", Key: "user.name", Cost: "n.tokens", Plan: "user.plan", Request: "req"}}, []string{
			`{"at":1767366245,"time":1,"user":{"name":"ann","plan":"pro"},"n":{"tokens":5},"req":{"method":"GET","url":"/a"},"route":"x","request":"GET /x"}`, "0 ann 5 pro GET /a",
			`{"at":1767366245,"user.name":"ann","user":{"plan":"pro"},"req":"GET /b"}`, "0 ann 1 pro GET /b",
			`{"at":1767366245,"key":"ann"}`, `! no key: the field "user.name" is absent or has no text`,
			`{"at":1767366245,"user":"ann"}`, `! no key: the field "user.name" is absent or has no text`,
			`{"time":1767366245,"user":{"name":"ann"}}`, "! no time",
		}},
		{"an object as the key", trace.Options{Fields: trace.Fields{Key: "user"}}, []string{
			`{"time":1767366245,"user":{"id":"ann"},"key":"bob"}`, `! no key: the field "user" is absent or has no text`,
			`{"time":1767366245,"user":["ann"]}`, `! no key: the field "user" is absent or has no text`,
			`{"time":1767366245,"user":""}`, `! no key: the field "user" is absent or has no text`,
			`{"time":1767366245,"user":7}`, "0 7 1 _ _",
		}},
		{"one field twice", trace.Options{Fields: trace.Fields{Key: "plan", Request: "time"}}, []string{
			`{"time":1767366245,"plan":"pro"}`, "0 pro 1 pro 1767366245",
		}},
		{"broken", trace.Options{}, []string{
			``, "",
			`started`, "! neither a JSON object, nor a line of a log, nor CSV with a column for the time",
			`{"time":1767366245,"key":"a"`, "! not a JSON object",
			`{"time":1767366245,"key":"a"}`, "0 a 1 _ _",
			`  `, "",
			`stopped`, "! not a JSON object",
			`[]`, "! not a JSON object",
			`{"time":1767366245,"key":"a"}{}`, "! not a JSON object",
			`{"time":1767366245,"key":{"a":1}}`, "! no key",
			`{"key":"a"}`, "! no time",
			`{"time":"soon","key":"a"}`, "! the time has an unknown format",
			`{"time":1767366245,"key":"a","cost":0}`, "! the cost is 0, which only asks for the state",
			`{"time":1767366245,"key":"a","cost":-1}`, "! the cost is not a whole number from 1 on",
			`{"time":1767366245,"key":"a","cost":1.5}`, "! the cost is not a whole number from 1 on",
			`{"time":1767366245,"key":"a","cost":9223372036854775808}`, "! the cost is not a whole number from 1 on",
			`{"time":1767366245,"key":"b","cost":2147483647}`, "0 b 2147483647 _ _",
		}},
		{"forced", trace.Options{Format: trace.JSON}, []string{
			`1767366245,a`, "! not a JSON object",
			`{"time":1767366245,"key":"a"}`, "0 a 1 _ _",
		}},
	})
}
