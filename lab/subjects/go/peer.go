// Package peer has the common parts of the lab's Go peers: options, topics, a way in for events, rows of experiment A, the
// firehose of experiment C.
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

// ticksInATurnMax is how many late ticks are caught up before others have their turn.
const ticksInATurnMax = 16

// turnPause lets subscribers write what they were given.
const turnPause = time.Millisecond

const rowTail = `,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]`

// Source is what a program sends by itself.
type Source struct {
	kind string
	of   map[string]string
}

// Options reads the command line: listen address, source, and whether to compress.
func Options() (string, Source, bool) {
	listen := flag.String("listen", "127.0.0.1:8080", "`host:port` to listen on")
	source := flag.String("source", "none", "what to send by itself: none, constant,topic=…,batch=…,interval_us=…,start_us=… or dummy,size=…,interval_us=…")
	deflate := flag.Bool("deflate", false, "grant permessage-deflate to who offers it")
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
		log.Fatalf("--source has no number %s", name)
	}
	return number
}

// Topics are subscribers by topic. A subscriber is a channel of messages, and one that is full is
// dropped, as the documentation of both WebSocket libraries has it.
type Topics[M any] struct {
	mutex  sync.Mutex
	topics map[string]map[*Subscriber[M]]struct{}
}

// Subscriber gets what is published to its topic. Its channel is closed when it is too slow.
type Subscriber[M any] struct {
	Messages chan M
	// It ends the connection, also while a write to it waits.
	close func()
}

// NewTopics has no subscribers yet.
func NewTopics[M any]() *Topics[M] {
	return &Topics[M]{topics: make(map[string]map[*Subscriber[M]]struct{})}
}

// Subscribe adds a subscriber for which so many messages may wait.
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

// Publish gives a message to every subscriber of a topic, and returns whether the channel of any is more than half full.
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

// Serve answers /healthz, gives each line that is posted to /TOPIC to publish, and every other request to subscribe.
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

// wholeLines splits at each line feed: a line that was cut off is no event.
func wholeLines(text []byte, _ bool) (int, []byte, error) {
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		return 0, nil, nil
	}
	return end + 1, text[:end], nil
}

// monotonicUs is the clock that the lab's schedules are in.
func monotonicUs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return now.Nano() / 1000
}

// SendRows publishes batches of rows, if that is the source. Late ones are caught up, as fast as the subscribers take them.
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

// PushDummies gives a dummy to write at each tick, if that is the source, until write fails or done is closed. A timer of Go's
// rounds up to a millisecond, so the ticks of one turn are caught up; those that pass while a write waits for the client are left
// out.
func PushDummies(source Source, done <-chan struct{}, write func([]byte) error) {
	if source.kind != "dummy" {
		return
	}
	// No request consists of this character alone, so none is taken for a dummy.
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

func laterOf(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}
