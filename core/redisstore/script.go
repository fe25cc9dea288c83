package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

//go:embed lua/*.lua
var files embed.FS

// A script is take.lua behind the algorithms that it needs, and no others:
// Redis builds every function of a script anew on every call.
type script struct{ source, sha string }

// scripts are made on first use, one for every set of algorithms.
type scripts [1 << len(programs)]atomic.Pointer[script]

func (s *scripts) forCharges(charges []*core.Charge) *script {
	set := 0
	for _, c := range charges {
		set |= 1 << c.Rule.Algorithm()
	}
	if known := s[set].Load(); known != nil {
		return known
	}
	made := compose(set)
	s[set].Store(made)
	return made
}

func compose(set int) *script {
	var source strings.Builder
	source.WriteString("local algorithms = {}\n")
	for i, p := range programs {
		if set&(1<<i) != 0 {
			source.WriteString(luaFile(p.file))
		}
	}
	source.WriteString(luaFile("take.lua"))
	sum := sha1.Sum([]byte(source.String())) // the name by which EVALSHA knows it
	return &script{source: source.String(), sha: hex.EncodeToString(sum[:])}
}

func luaFile(name string) string {
	text, err := files.ReadFile("lua/" + name)
	if err != nil {
		panic("redisstore: " + err.Error()) // embedded: it is there or the build is broken
	}
	return string(text)
}
