// Command gorilla is the program of experiment C: on one WebSocket it pushes a
// dummy message at an interval and returns every text that the client sends.
package main

import (
	"flag"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

var upgrader websocket.Upgrader

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`host:port` to listen on")
	size := flag.Int("dummy-size", 0, "`bytes` of the dummy message; 0 is none")
	interval := flag.Duration("dummy-interval", time.Millisecond, "`time` between two dummy messages")
	flag.Parse()
	if *size < 0 || *interval <= 0 {
		log.Fatal("--dummy-size must not be negative, and --dummy-interval must be positive")
	}
	// No request consists of this character alone, so none is taken for a dummy.
	dummy := []byte(strings.Repeat("x", *size))

	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered with the reason.
		}
		serve(conn, dummy, *interval)
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// serve returns what the client says until the connection ends, and pushes
// beside it.
//
// gorilla allows one writer at a time. Here that is a mutex around
// WriteMessage, what one adds first to a loop that reads and writes: unlike a
// goroutine that writes what comes through a channel, it has no queue whose
// length would have to be chosen.
func serve(conn *websocket.Conn, dummy []byte, interval time.Duration) {
	defer conn.Close()
	var mutex sync.Mutex
	write := func(kind int, message []byte) error {
		mutex.Lock()
		defer mutex.Unlock()
		return conn.WriteMessage(kind, message)
	}

	if len(dummy) > 0 {
		done := make(chan struct{})
		defer close(done)
		go push(write, dummy, interval, done)
	}
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if err := write(kind, message); err != nil {
			return
		}
	}
}

// push writes the dummy at every tick until it cannot or done is closed. Ticks
// that pass while one is being written are left out.
func push(write func(int, []byte) error, dummy []byte, interval time.Duration, done <-chan struct{}) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if err := write(websocket.TextMessage, dummy); err != nil {
				return
			}
		}
	}
}
