// Command gorilla broadcasts with messages that are framed once (PreparedMessage), or as the chat example of gorilla/websocket
// does: waiting messages of a client are sent as one, separated by line feeds. It echoes as the program of experiment C does.
package main

import (
	"flag"
	"log"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
	"peer"
)

// waitingMax is how many messages may wait for a subscriber, as in the chat example.
const waitingMax = 256

var (
	batched   = flag.Bool("batched", false, "write all waiting messages of a client as one")
	published = flag.Bool("published", false, "push dummies as the published program does: late ticks are dropped")
	// The documentation recommends the pool for many connections.
	upgrader = websocket.Upgrader{WriteBufferPool: &sync.Pool{}}
	topics   = peer.NewTopics[message]()
)

// message is an event, framed or unchanged.
type message struct {
	prepared *websocket.PreparedMessage
	event    []byte
}

func main() {
	listen, source, deflate := peer.Options()
	upgrader.EnableCompression = deflate
	go peer.SendRows(source, publish)
	peer.Serve(listen, publish, func(topic string, w http.ResponseWriter, r *http.Request) {
		// Subscribe before the answer that confirms the subscription.
		subscriber := topics.Subscribe(topic, waitingMax)
		defer topics.Unsubscribe(topic, subscriber)
		if conn, err := upgrader.Upgrade(w, r, nil); err == nil {
			serve(conn, subscriber, source)
		}
	})
}

func publish(topic string, event []byte) bool {
	if *batched {
		return topics.Publish(topic, message{event: event})
	}
	prepared, err := websocket.NewPreparedMessage(websocket.TextMessage, event)
	if err != nil {
		log.Fatal(err)
	}
	return topics.Publish(topic, message{prepared: prepared})
}

// send writes a message, or this message and all waiting ones as one.
func send(conn *websocket.Conn, first message, waiting <-chan message) error {
	if first.prepared != nil {
		return conn.WritePreparedMessage(first.prepared)
	}
	writer, err := conn.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	writer.Write(first.event)
	for range len(waiting) {
		writer.Write([]byte{'\n'})
		writer.Write((<-waiting).event)
	}
	return writer.Close()
}

// serve echoes the client's messages until the connection ends, and pushes messages at the same time. gorilla allows one writer
// at a time, so a mutex guards the writes.
func serve(conn *websocket.Conn, subscriber *peer.Subscriber[message], source peer.Source) {
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
			err := send(conn, message, subscriber.Messages)
			mutex.Unlock()
			if err != nil {
				conn.Close()
				return
			}
		}
	}()
	done := make(chan struct{})
	defer close(done)
	push := peer.PushDummies
	if *published {
		push = peer.PushDummiesOnTicks
	}
	go push(source, done, func(dummy []byte) error { return write(websocket.TextMessage, dummy) })
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
