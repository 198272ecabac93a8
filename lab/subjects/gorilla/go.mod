module gorilla

go 1.23

require (
	github.com/gorilla/websocket v1.5.3
	peer v0.0.0
)

require golang.org/x/sys v0.30.0 // indirect

replace peer => ../go
