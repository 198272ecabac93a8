// Command coder broadcasts as the chat example of coder/websocket does.
package main

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
	"peer"
)

// waitingMax is how many messages may wait for a subscriber, as in the chat example.
const waitingMax = 16

var topics = peer.NewTopics[[]byte]()

func main() {
	listen, source, deflate := peer.Options()
	var options websocket.AcceptOptions
	if deflate {
		options.CompressionMode = websocket.CompressionNoContextTakeover
	}
	go peer.SendRows(source, topics.Publish)
	peer.Serve(listen, topics.Publish, func(topic string, w http.ResponseWriter, r *http.Request) {
		// Subscribe before the answer that confirms the subscription.
		subscriber := topics.Subscribe(topic, waitingMax)
		defer topics.Unsubscribe(topic, subscriber)
		if conn, err := websocket.Accept(w, r, &options); err == nil {
			serve(r.Context(), conn, subscriber, source)
		}
	})
}

// serve echoes the client's messages until the connection ends, and pushes messages at the same time.
func serve(ctx context.Context, conn *websocket.Conn, subscriber *peer.Subscriber[[]byte], source peer.Source) {
	defer conn.CloseNow()
	topics.CloseSlow(subscriber, func() {
		conn.Close(websocket.StatusPolicyViolation, "connection too slow to keep up with messages")
	})
	write := func(message []byte) error { return conn.Write(ctx, websocket.MessageText, message) }
	go func() {
		for message := range subscriber.Messages {
			if write(message) != nil {
				return
			}
		}
	}()
	done := make(chan struct{})
	defer close(done)
	go peer.PushDummies(source, done, write)
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if conn.Write(ctx, kind, message) != nil {
			return
		}
	}
}
