//go:build !js

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this program runs in a browser: build it with GOOS=js GOARCH=wasm, or with make web")
	os.Exit(2)
}
