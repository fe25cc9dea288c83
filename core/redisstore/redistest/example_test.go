package redistest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

func ExampleStartServer() {
	server, err := redistest.StartServer("--maxmemory", "50mb", "--maxmemory-policy", "noeviction")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	fmt.Println(server.Client().Ping(context.Background()).Val())
	if err := server.Stop(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Client().Ping(context.Background()).Err())
}

func ExampleStartProxy() {
	server, err := redistest.StartServer()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	proxy, err := redistest.StartProxy(server.Addr)
	if err != nil {
		log.Fatal(err)
	}
	defer proxy.Close()
	// Clients that connect to proxy.Addr reach the server. Now they get no replies.
	proxy.Drop()
}
