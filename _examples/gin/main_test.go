package main

import (
	"testing"

	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAPI(t *testing.T) { demotest.API(t) }
