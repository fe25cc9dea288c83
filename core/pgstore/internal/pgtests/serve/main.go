// Serve starts a Postgres server for the benchmarks, which cannot import package pgtest, and prints the data source name of a
// database. The server ends with the standard input. The arguments are settings, such as fsync=on.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
)

func main() {
	log.SetFlags(0)
	s, err := pgtest.Start(os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	name, err := s.CreateDatabase()
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(s.DSN(name))
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}
