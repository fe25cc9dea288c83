package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// The exit status is 1 if something will not work, and each change stands once below the table.
func TestDoctor(t *testing.T) {
	server, cluster := redistest.NewServer(t), redistest.SharedCluster(t)
	evicting := redistest.NewServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	paused, kept := redistest.NewServer(t), redistest.NewServer(t, "--appendonly", "yes")
	testkit.Must(t, paused.Pause())
	ctx, rdb := t.Context(), server.Client()
	for _, args := range [][]any{
		{"acl", "setuser", "scripts", "on", ">password", "~*", "&*", "+@all", "-evalsha"},
		{"acl", "setuser", "places", "on", ">password", "~*", "&*", "+@all", "-zadd", "-info"},
		{"acl", "setuser", "store", "on", ">password", "~*", "&*", "+@all", "-xrevrange"},
		{"acl", "setuser", "shop", "on", ">password", "~shop:*", "&shop:*", "+@all"},
	} {
		testkit.Must(t, rdb.Do(ctx, args...).Err())
	}
	as := func(user string) string { return "-redis redis://" + user + ":password@" + server.Addr }
	const ok = "\nconnection             ok       " // columns depend on the longest result
	for _, c := range []struct {
		name, args string
		status     int
		want       []string // parts of the output
		absent     string   // no part
	}{
		{"works", "-timeout 1m -redis redis://" + server.Addr, 0,
			[]string{"CHECK                  RESULT  DETAIL\nconnection             ok      the server replies\n", "\nscript in_flight       ok      decides, undoes and resets\n", "\nclock "}, "will not work"},
		{"Cluster", "-timeout 1m -cluster -redis redis://" + cluster.Nodes[0].Addr, 0, []string{"\nclient                 ok      127.0.0.1:"}, "will not work"},
		{"evicting", "-timeout 1m -redis redis://" + evicting.Addr, 0,
			[]string{"\nmemory                 warning  maxmemory-policy allkeys-lru: ", "\n\nworks, with a disadvantage: memory\n  set maxmemory-policy to noeviction\n"}, "will not work"},
		{"prefix", "-timeout 1m -prefix shop: " + as("shop"), 0, []string{"\ncommands               ok "}, "will not work"},
		{"other prefix", "-timeout 1m " + as("shop"), 1, []string{"\nwill not work: commands, client, script bucket, ", "\n  allow the user the commands, keys and channels "}, ""},
		{"no EVALSHA", "-timeout 1m " + as("scripts"), 1, []string{
			"\ncommands               failed   EVALSHA: NOPERM ",
			"\n\nwill not work: commands, script bucket, script sliding_window, script sliding_log, script in_flight, script quota, script pause\nnot checked: messages\n  allow the user ",
			": +evalsha\n",
		}, ok + "no"},
		{"no ZADD and INFO", "-timeout 1m " + as("places"), 1, []string{
			"\nserver                 unknown  INFO: NOPERM ", "\nwill not work: commands, script sliding_log, script in_flight\nworks, with a disadvantage: processes\nnot checked: messages\n  allow the user ", ": +zadd\n", "\nnot checked: server, memory, role\n  allow the user ", ": +info\n",
		}, ""},
		{"rules", "-rules -timeout 1m -redis redis://" + server.Addr, 0,
			[]string{"\nrules                  warning  limits, overrides and blocks can be read; without appendonly, ", "\nworks, with a disadvantage: rules\n  set appendonly to yes\n"}, "will not work"},
		{"rules, appendonly", "-rules -timeout 1m -redis redis://" + kept.Addr, 0, []string{"\nrules                  ok      limits, overrides and blocks can be read\n"}, "will not work"},
		{"no XREVRANGE", "-rules -timeout 1m " + as("store"), 1, []string{"\nrules                  failed  ", " the 'xrevrange' command\n", "\nwill not work: rules\n  allow the user the commands of package rules, "}, ""},
		{"no XREVRANGE, without rules", "-timeout 1m " + as("store"), 0, nil, "will not work"},
		{"far", "-timeout 1ns -redis redis://" + server.Addr, 1, []string{"\nround trip             failed  median ", "; the Timeout of a decision is 1ns\n", "\nwill not work: round trip\n  set Timeout "}, ""},
		{"paused", "-redis redis://" + paused.Addr, 1, []string{"connection  failed  no answer within 1s\n\nwill not work: connection\n  check the address"}, "clock"},
		{"absent", "-redis redis://127.0.0.1:1", 1, []string{"connection  failed  dial tcp 127.0.0.1:1: connect: connection refused\n"}, "clock"},
		{"absent Sentinel", "-redis redis://127.0.0.1:1?master_name=m", 1, []string{"connection  failed  "}, "clock"},
		{"no Cluster", "-cluster -redis redis://" + server.Addr, 1, []string{"\nclient      failed  ERR This instance has cluster support disabled\n\nwill not work: client\n  use redis.NewClient\n"}, "clock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			begun := time.Now()
			if status := run(strings.Fields("doctor "+c.args), &stdout, &stderr); status != c.status || stderr.Len() > 0 {
				t.Errorf("got status %d and stderr %s after %v, want %d", status, &stderr, time.Since(begun), c.status)
			}
			for _, part := range c.want {
				if !strings.Contains(stdout.String(), part) {
					t.Errorf("got\n%s\nwant a part\n%s", &stdout, part)
				}
			}
			if c.absent != "" && strings.Contains(stdout.String(), c.absent) {
				t.Errorf("got\n%s\nwant no part %q", &stdout, c.absent)
			}
		})
	}
}

// The findings are also printed as JSON, and the URL may be in the environment.
func TestDoctor_JSON(t *testing.T) {
	t.Setenv("WEIR_REDIS_URL", "redis://"+redistest.Shared(t).Addr)
	t.Setenv("WEIR_KEY_SECRET", "a secret of 16 bytes or more")
	var stdout, stderr strings.Builder
	status := run([]string{"doctor", "-json", "-timeout", "1m"}, &stdout, &stderr)
	var findings []diagnose.Finding
	if err := json.Unmarshal([]byte(stdout.String()), &findings); err != nil || status != 0 {
		t.Fatalf("got status %d, %s and %v, want a list", status, &stderr, err)
	}
	if want := (diagnose.Finding{Check: "connection", Result: diagnose.ResultOK, Detail: "the server replies"}); len(findings) != 17 || findings[0] != want {
		t.Errorf("got %+v, want 17 findings and first %+v", findings, want)
	}
	if !strings.HasPrefix(stdout.String(), "[\n  {\n    \"check\": \"connection\",\n    \"result\": \"ok\",\n    \"detail\": \"the server replies\"\n  },\n") {
		t.Errorf("got %s, want a list of objects", &stdout)
	}
}

func TestDoctor_Errors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never replies
	testkit.Must(t, err)
	defer listener.Close()
	defer func(old time.Duration) { timeout = old }(timeout)
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string // parts
	}{
		{"-h", 0, "", "usage:\n  weir doctor "},
		{"x", 2, "", "usage:\n  weir doctor "},
		{"-timeout x", 2, "", `invalid value "x" for flag -timeout`},
		{"-timeout 0s", 1, "", "weir: the flag -timeout is not positive\n"},
		{"-timeout -1s", 1, "", "weir: the flag -timeout is not positive\n"},
		{"-redis 127.0.0.1:6379", 1, "", "weir: the URL of Redis is invalid"},
		{"-prefix {", 1, "", "weir: the prefix and the name"},
		{"-redis redis://" + listener.Addr().String(), 1, "connection  failed  ", ""},
		{"-cluster -redis redis://" + listener.Addr().String(), 1, "connection  failed  ", ""},
		{"-redis redis://" + listener.Addr().String() + "?master_name=m", 1, "connection  failed  ", ""},
	} {
		timeout = 100 * time.Millisecond
		var stdout, stderr strings.Builder
		status := run(strings.Fields("doctor "+c.args), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			c.stdout == "" && stdout.Len() > 0 || c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%s: got status %d, stdout %s and stderr %s", c.args, status, &stdout, &stderr)
		}
	}
}
