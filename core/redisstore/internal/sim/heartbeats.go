package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/weir-go/weir/core/internal/processes"
)

// isRecord reports whether a key is that of a record of processes.
func isRecord(key string) bool { return strings.Contains(key, "}processes") }

// scripts are those of package processes, by their hashes. The simulated server executes them as they are, with its own
// commands.
var scripts = sync.OnceValue(func() map[string]*lua.FunctionProto {
	all := make(map[string]*lua.FunctionProto)
	for _, script := range processes.Scripts {
		chunk, err := parse.Parse(strings.NewReader(script.Source), "script")
		if err != nil {
			panic("sim: " + err.Error())
		}
		compiled, err := lua.Compile(chunk, "script")
		if err != nil {
			panic("sim: " + err.Error())
		}
		all[script.SHA] = compiled
	}
	return all
})

func hashOfScript(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// interpret executes a script of package processes.
func (s *server) interpret(sha string, keys, argv []string) any {
	if sha == processes.SwitchScript.SHA { // one line, each second and process
		return s.keyspace.hashes[keys[0]][argv[0]]
	}
	beats := sha == processes.Heartbeats.SHA
	if beats && s.noMemory {
		return errorReply(noMemory)
	}
	if s.lua == nil { // one for all scripts: a simulation frees no memory
		s.lua = lua.NewState(lua.Options{RegistrySize: 1024, CallStackSize: 32})
	}
	l := s.lua
	defer l.SetTop(0)
	list := func(name string, all []string) {
		table := l.NewTable()
		for _, text := range all {
			table.Append(lua.LString(text))
		}
		l.SetGlobal(name, table)
	}
	list("KEYS", keys)
	list("ARGV", argv)
	commands := l.NewTable()
	commands.RawSetString("call", l.NewFunction(s.call))
	commands.RawSetString("pcall", l.NewFunction(s.call))
	l.SetGlobal("redis", commands)
	l.Push(l.NewFunctionFromProto(scripts()[sha]))
	if err := l.PCall(0, 1, nil); err != nil {
		panic("sim: " + err.Error())
	}
	reply := ofLua(l.Get(-1))
	if beats && s.heard != nil {
		s.heard(argv)
	}
	return reply
}

// call executes a command of a script.
func (s *server) call(l *lua.LState) int {
	var args []string
	for i := range l.GetTop() {
		args = append(args, l.Get(i+1).String())
	}
	if strings.EqualFold(args[0], "TIME") {
		now := s.now()
		l.Push(toLua(l, []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}))
		return 1
	}
	l.Push(toLua(l, s.keyspace.execute(strings.ToLower(args[0]), args[1:], s.now())))
	return 1
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch reply := reply.(type) {
	case int:
		return lua.LNumber(reply)
	case string:
		return lua.LString(reply)
	case []string:
		table := l.NewTable()
		for _, text := range reply {
			table.Append(lua.LString(text))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, element := range reply {
			table.Append(toLua(l, element))
		}
		return table
	}
	if reply == nil {
		return lua.LFalse
	}
	panic(fmt.Sprintf("sim: a script cannot read the reply %v", reply))
}

func ofLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		return nil
	case *lua.LTable:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = ofLua(v.RawGetInt(i + 1))
		}
		return all
	}
	panic(fmt.Sprintf("sim: a script returns %v", v))
}

// ranked returns the members of a set by their scores.
func ranked(set map[string]float64) []string {
	all := make([]string, 0, len(set))
	for member := range set {
		all = append(all, member)
	}
	slices.SortFunc(all, func(a, b string) int {
		if set[a] != set[b] {
			if set[a] < set[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return all
}
