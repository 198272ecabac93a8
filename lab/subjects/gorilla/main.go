// Command gorilla broadcasts as the chat example of gorilla/websocket does, with messages that are
// framed once (PreparedMessage), and answers as the program of experiment C does.
package main

import (
	"log"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
	"peer"
)

// waitingMax is how many messages may wait for a subscriber, as in the chat example.
const waitingMax = 256

var (
	upgrader websocket.Upgrader
	topics   = peer.NewTopics[*websocket.PreparedMessage]()
)

func main() {
	listen, source := peer.Options()
	go peer.SendRows(source, publish)
	peer.Serve(listen, publish, func(topic string, w http.ResponseWriter, r *http.Request) {
		// Before the answer that says that it stands.
		subscriber := topics.Subscribe(topic, waitingMax)
		defer topics.Unsubscribe(topic, subscriber)
		if conn, err := upgrader.Upgrade(w, r, nil); err == nil {
			serve(conn, subscriber, source)
		}
	})
}

func publish(topic string, event []byte) bool {
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, event)
	if err != nil {
		log.Fatal(err)
	}
	return topics.Publish(topic, message)
}

// serve returns what the client says until the connection ends, and pushes beside it. gorilla allows
// one writer at a time: that is a mutex, what one adds first to a loop that reads and writes.
func serve(conn *websocket.Conn, subscriber *peer.Subscriber[*websocket.PreparedMessage], source peer.Source) {
	defer conn.Close()
	topics.CloseSlow(subscriber, func() { conn.Close() })
	var mutex sync.Mutex
	write := func(kind int, message []byte) error {
		mutex.Lock()
		defer mutex.Unlock()
		return conn.WriteMessage(kind, message)
	}
	go func() {
		for message := range subscriber.Messages {
			mutex.Lock()
			err := conn.WritePreparedMessage(message)
			mutex.Unlock()
			if err != nil {
				conn.Close()
				return
			}
		}
	}()
	done := make(chan struct{})
	defer close(done)
	go peer.PushDummies(source, done, func(dummy []byte) error { return write(websocket.TextMessage, dummy) })
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
