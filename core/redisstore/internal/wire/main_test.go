package wire

import (
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
