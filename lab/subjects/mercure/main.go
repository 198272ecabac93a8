// Command mercure is Caddy with Mercure's module and Caddy's own, as its releases are: its own main package cannot be installed
// by `go install`, for its go.mod replaces what lies beside it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/dunglas/mercure/caddy"
)

func main() { caddycmd.Main() }
