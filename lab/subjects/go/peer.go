// Package peer has the common parts of the lab's Go peers: options, topics, an endpoint for events, the rows of experiment A, and
// the firehose of experiment C.
package peer

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lineBytesMax is the longest line that is published.
const lineBytesMax = 2 << 20

// ticksInATurnMax is the number of late ticks that are caught up before other goroutines run.
const ticksInATurnMax = 16

// turnPause gives subscribers time to write their messages.
const turnPause = time.Millisecond

const rowTail = `,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]`

// Source describes the events that a program generates.
type Source struct {
	kind string
	of   map[string]string
}

// Options reads the command line: listen address, source, and whether to compress.
func Options() (string, Source, bool) {
	listen := flag.String("listen", "127.0.0.1:8080", "`host:port` to listen on")
	source := flag.String("source", "none", "events to generate: none, constant,topic=…,batch=…,interval_us=…,start_us=… or dummy,size=…,interval_us=…")
	deflate := flag.Bool("deflate", false, "accept permessage-deflate from clients that offer it")
	flag.Parse()
	words := strings.Split(*source, ",")
	of := make(map[string]string)
	for _, pair := range words[1:] {
		name, value, _ := strings.Cut(pair, "=")
		of[name] = value
	}
	return *listen, Source{words[0], of}, *deflate
}

func (s Source) number(name string) int64 {
	number, err := strconv.ParseInt(s.of[name], 10, 64)
	if err != nil {
		log.Fatalf("--source needs a number for %s", name)
	}
	return number
}

// Topics has the subscribers of each topic. A subscriber has a channel of messages, and is dropped if the channel is full, as in
// the documentation of both WebSocket libraries.
type Topics[M any] struct {
	mutex  sync.Mutex
	topics map[string]map[*Subscriber[M]]struct{}
}

// Subscriber gets the messages of a topic. The channel is closed if the subscriber is too slow.
type Subscriber[M any] struct {
	Messages chan M
	// close ends the connection, even while a write to it waits.
	close func()
}

// NewTopics returns topics without subscribers.
func NewTopics[M any]() *Topics[M] {
	return &Topics[M]{topics: make(map[string]map[*Subscriber[M]]struct{})}
}

// Subscribe adds a subscriber for which up to waiting messages may wait.
func (t *Topics[M]) Subscribe(topic string, waiting int) *Subscriber[M] {
	subscriber := &Subscriber[M]{make(chan M, waiting), func() {}}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.topics[topic] == nil {
		t.topics[topic] = make(map[*Subscriber[M]]struct{})
	}
	t.topics[topic][subscriber] = struct{}{}
	return subscriber
}

// CloseSlow sets the function that ends the connection of a subscriber that is too slow.
func (t *Topics[M]) CloseSlow(subscriber *Subscriber[M], close func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	subscriber.close = close
}

// Unsubscribe removes a subscriber, if it is still there.
func (t *Topics[M]) Unsubscribe(topic string, subscriber *Subscriber[M]) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.remove(topic, subscriber)
}

func (t *Topics[M]) remove(topic string, subscriber *Subscriber[M]) {
	if _, is := t.topics[topic][subscriber]; is {
		delete(t.topics[topic], subscriber)
		close(subscriber.Messages)
	}
}

// Publish gives a message to every subscriber of a topic, and returns whether any channel is more than half full.
func (t *Topics[M]) Publish(topic string, message M) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	isBehind := false
	for subscriber := range t.topics[topic] {
		select {
		case subscriber.Messages <- message:
			isBehind = isBehind || len(subscriber.Messages) > cap(subscriber.Messages)/2
		default:
			t.remove(topic, subscriber)
			go subscriber.close()
		}
	}
	return isBehind
}

// Serve answers /healthz, calls publish for each line that is posted to /TOPIC, and subscribe for each GET of /TOPIC.
func Serve(listen string, publish func(topic string, event []byte) bool, subscribe func(topic string, w http.ResponseWriter, r *http.Request)) {
	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("GET /{topic...}", func(w http.ResponseWriter, r *http.Request) {
		subscribe(r.PathValue("topic"), w, r)
	})
	http.HandleFunc("POST /{topic...}", func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(make([]byte, 64<<10), lineBytesMax)
		lines.Split(wholeLines)
		count := 0
		for lines.Scan() {
			if len(lines.Bytes()) > 0 {
				publish(r.PathValue("topic"), bytes.Clone(lines.Bytes()))
				count++
			}
		}
		fmt.Fprintf(w, `{"count":%d}`, count)
	})
	log.Fatal(http.ListenAndServe(listen, nil))
}

// wholeLines splits at each line feed. A last line without one is not an event.
func wholeLines(text []byte, _ bool) (int, []byte, error) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return 0, nil, nil
	}
	return end + 1, text[:end], nil
}

// monotonicUs returns the time of the clock of the lab's schedules, µs.
func monotonicUs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return now.Nano() / 1000
}

// SendRows publishes batches of rows, if the source is one of rows. It catches up late batches as fast as subscribers take them.
func SendRows(source Source, publish func(topic string, event []byte) bool) {
	if source.kind != "constant" {
		return
	}
	topic, batch := source.of["topic"], source.number("batch")
	due, interval := source.number("start_us"), source.number("interval_us")
	if passed := monotonicUs() - due; passed > 0 {
		due += (passed + interval - 1) / interval * interval
	}
	sequence := int64(0)
	for {
		isBehind := false
		for ticks := 0; ticks < ticksInATurnMax && due <= monotonicUs() && !isBehind; ticks++ {
			text := make([]byte, 0, int(batch)*(len(rowTail)+32)+2)
			for row := range batch {
				text = append(text, "[,"[min(row, 1)], '[')
				sequence++
				text = strconv.AppendInt(text, sequence, 10)
				text = append(text, ',')
				text = strconv.AppendInt(text, due, 10)
				text = append(text, rowTail...)
			}
			isBehind = publish(topic, append(text, ']'))
			due += interval
		}
		time.Sleep(max(time.Duration(due-monotonicUs())*time.Microsecond, turnPause))
	}
}

// PushDummies calls write with a dummy at each tick, if the source is one of dummies, until write fails or done is closed. A timer
// of Go rounds up to a millisecond, so the ticks of one turn are caught up. Ticks that pass while a write waits for the client are
// skipped.
func PushDummies(source Source, done <-chan struct{}, write func([]byte) error) {
	if source.kind != "dummy" {
		return
	}
	// No request consists of this character alone, so none is mistaken for a dummy.
	dummy := bytes.Repeat([]byte("x"), int(source.number("size")))
	interval := time.Duration(source.number("interval_us")) * time.Microsecond
	due := time.Now().Add(interval)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		due = laterOf(due, time.Now().Add(-ticksInATurnMax*interval))
		for !due.After(time.Now()) {
			if write(dummy) != nil {
				return
			}
			due = due.Add(interval)
		}
		timer.Reset(time.Until(due))
	}
}

// PushDummiesOnTicks calls write with a dummy at each tick of a ticker, like the published program of experiment C: a ticker drops
// the ticks that pass while a write waits or while Go's timers are late.
func PushDummiesOnTicks(source Source, done <-chan struct{}, write func([]byte) error) {
	if source.kind != "dummy" {
		return
	}
	dummy := bytes.Repeat([]byte("x"), int(source.number("size")))
	ticker := time.NewTicker(time.Duration(source.number("interval_us")) * time.Microsecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if write(dummy) != nil {
				return
			}
		}
	}
}

func laterOf(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}
