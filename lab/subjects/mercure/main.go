// Command mercure is Caddy with Mercure's module and Caddy's own modules, as in Mercure's releases. `go install` cannot install
// Mercure's own main package, because its go.mod replaces modules with folders beside it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/dunglas/mercure/caddy"
)

func main() { caddycmd.Main() }
