module coder

go 1.23

require (
	github.com/coder/websocket v1.8.15
	peer v0.0.0
)

require golang.org/x/sys v0.30.0 // indirect

replace peer => ../go
