package connectlimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A handler of connect behind the middleware of net/http. Generated code returns such a handler for a whole service.
func ExampleAnswers() {
	const greet = "/greet.v1.GreetService/Greet"
	hello := connect.NewUnaryHandler(greet, func(_ context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return connect.NewResponse(wrapperspb.String("Hello, " + req.Msg.Value)), nil
	})
	store := memstore.New()
	limit := nethttplimit.Limit(store, core.SlidingLog("calls", core.PerMinute(1)), keyfunc.RemoteIP(), connectlimit.Answers(connect.NewErrorWriter()))
	server := httptest.NewServer(limit(hello))
	defer server.Close()

	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, server.URL+greet)
	for range 2 {
		res, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("Ann")))
		if err == nil {
			fmt.Println(res.Msg.Value)
			continue
		}
		fmt.Println(err)
		for _, detail := range err.(*connect.Error).Details() {
			if quota, err := detail.Value(); err == nil && detail.Type() == "google.rpc.QuotaFailure" {
				v := quota.(*errdetails.QuotaFailure).Violations[0]
				fmt.Println(v.QuotaId, v.QuotaMetric, v.QuotaValue, v.Description)
			}
		}
	}
	// Output:
	// Hello, Ann
	// resource_exhausted: Policy "calls" allows 1 request per 60 s. Retry in 60 s.
	// calls requests 1 1/m
}
