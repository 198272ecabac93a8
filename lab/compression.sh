#!/bin/sh
# Bytes of a message on the wire, per topic and size of the context: topics of the demo, and five kinds of events that are published
# one at a time. `thalweg serve` runs on one core, 1,000 clients that inflate on another, over WebSocket and SSE.
#
# Usage: lab/compression.sh [path/to/thalweg [path/to/examples/compression]], both release builds, and thalweg-lab beside the first. Variables:
#   SECONDS_EACH=10     time of each measurement
#   CONNECTIONS=1000    subscribers of each topic over each transport; lab/rows/… has a twentieth of them
#   FILL=60             seconds for slow topics to fill the context with history
#   CONTEXTS            sizes of the context; "plain" is without compression, 0 compresses each message alone
#   TOPICS              topics of the demo
#   KINDS               kinds of events; "runner" is the source of the demo's lab/runner/…, which here waits for published acks
#
# car_live_data and lab/rows/10 have several rows in a message. matchesfeed/… is a value topic, which has no context. ticker and
# max-speed have one message a second, so FILL seconds give them a few kilobytes of history, and not 32 KiB.
set -eu

thalweg=${1:-target/release/thalweg}
example=${2:-target/release/examples/compression}
seconds=${SECONDS_EACH:-10}
connections=${CONNECTIONS:-1000}
fill=${FILL:-60}
contexts=${CONTEXTS:-plain 0 1KiB 4KiB 32KiB}
topics=${TOPICS-ticker max-speed car_live_data lab/rows/1 lab/rows/10 matchesfeed/1/matchcentre}
kinds=${KINDS-runner cars chat small-event trade token}
server=127.0.0.1:9111
work=$(mktemp -d)
pids=
publisher=

cleanup() {
    rm -f "$work/publishing"
    # Without the server, `pub` would repeat its line for minutes.
    [ -z "$publisher" ] || wait "$publisher" 2>/dev/null || true
    # Only what was started here.
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    pids=
}
trap 'cleanup; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Publishes the events of a file to a topic, one every 10 ms, again and again, as long as the file `publishing` exists.
publish() {
    while [ -e "$work/publishing" ]; do
        while [ -e "$work/publishing" ] && read -r line; do
            printf '%s\n' "$line"
            sleep 0.01
        done <"$2"
    done | taskset -c 1 "$thalweg" pub --quiet "http://$server/v1/topics/$1" >/dev/null 2>&1
}

# Measures one topic over one transport, and keeps the report.
measure() {
    context=$1 topic=$2 transport=$3 count=$4
    case $transport in
    websocket) scheme=ws ;;
    *) scheme=http ;;
    esac
    compress=--compress
    [ "$context" = plain ] && compress=
    report="$work/$context-$(echo "$topic" | tr / _)-$transport"
    # Subscribers begin with the newest events, so that they have the context at once.
    taskset -c 1 "$thalweg-lab" bench --out "$report.run" --repeats 1 --connections "$count" --duration "${seconds}s" \
        --url "$scheme://$server/v1/topics/$topic?cursor=newest.400" --transports "$transport" $compress \
        >"$report" 2>&1 || { cat "$report" >&2; exit 1; }
}

# Prints the bytes of a message on the wire.
bytes() {
    found=$(sed -n 's/.* \([0-9.]*\) on the wire each.*/\1/p' "$work/$1-$(echo "$2" | tr / _)-$3" 2>/dev/null || true)
    echo "${found:--}"
}

ulimit -n "$(ulimit -Hn)"
for kind in $kinds; do
    case $kind in
    # The newest ack that there can be: each makes one event.
    runner) seq 2000 | sed 's/.*/{"id":9007199254740991}/' >"$work/$kind.events" ;;
    *) "$example" "$kind" >"$work/$kind.events" ;;
    esac
done
for context in $contexts; do
    case $context in
    plain) flags= ;;
    *) flags="--compression --set tuning.compression-context-bytes=$context" ;;
    esac
    taskset -c 0 "$thalweg" serve --shards 1 --listen "$server" --demo --source runner=runner,ack=acks $flags >"$work/server.log" 2>&1 &
    pids="$pids $!"
    until curl -s -o /dev/null "http://$server/healthz"; do
        kill -0 "$!" || { cat "$work/server.log" >&2; exit 1; }
        sleep 0.1
    done
    sleep "$fill"
    # Another server may have answered at this address.
    kill -0 "$!" || { cat "$work/server.log" >&2; exit 1; }
    for topic in $topics; do
        count=$connections
        case $topic in lab/rows/*) count=$((connections / 20)) ;; esac
        for transport in websocket sse; do measure "$context" "$topic" "$transport" "$count"; done
    done
    for kind in $kinds; do
        touch "$work/publishing"
        target=$kind
        [ "$kind" = runner ] && target=acks
        publish "$target" "$work/$kind.events" &
        publisher=$!
        for transport in websocket sse; do measure "$context" "$kind" "$transport" "$connections"; done
        rm "$work/publishing"
        wait "$publisher" || true
    done
    cleanup
done

printf '%-28s %-10s' topic transport
for context in $contexts; do printf '%8s' "$context"; done
printf '   beside each alone\n'
for topic in $topics $kinds; do
    for transport in websocket sse; do
        printf '%-28s %-10s' "$topic" "$transport"
        for context in $contexts; do printf '%8s' "$(bytes "$context" "$topic" "$transport")"; done
        printf '  '
        for context in $contexts; do
            case $context in
            plain | 0) ;;
            *) echo "$context $(bytes "$context" "$topic" "$transport") $(bytes 0 "$topic" "$transport")" ;;
            esac
        done | awk '$2 + 0 > 0 && $3 + 0 > 0 { printf " %s: %.2f", $1, $2 / $3 }'
        printf '\n'
    done
done
