#!/bin/sh
# A start on a large directory: the time until the server listens and until it answers a first read, and its
# memory. Then the largest size of a directory while a store of 1 GiB is filled. It needs root, to drop the
# caches of the kernel, and twice GIB of disk. Usage: lab/durable.sh THALWEG PUBLISH_RATE [GIB [TOPICS]], e.g.
# target/release/thalweg target/release/examples/publish_rate
set -eu

thalweg=$1
publish_rate=$2
gib=${3:-10}
topics=${4:-100000}
folder=$(mktemp -d)
pid=

cleanup() {
    # Only what was started here.
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap cleanup EXIT INT TERM

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

rss_kb() {
    awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status"
}

# Starts a server, and waits until it listens. Sets pid, address and start_ms.
start() {
    begun=$(now_ms)
    "$thalweg" serve --listen 127.0.0.1:0 --shards 1 --log error "$@" >"$folder/out" 2>&1 &
    pid=$!
    until address=$(sed -n 's|.*listening on http://||p' "$folder/out") && [ -n "$address" ]; do
        kill -0 "$pid" || { cat "$folder/out"; exit 1; }
        sleep 0.005
    done
    start_ms=$(($(now_ms) - begun))
}

stop() {
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    pid=
}

drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

read_topic() {
    curl -sf -o /dev/null "http://$address/v1/topics/rate/$1?limit=1&cursor=earliest"
}

start
memory_kb=$(rss_kb)
echo "in memory: listens after $start_ms ms, $((memory_kb / 1024)) MiB resident"
stop

"$publish_rate" "$folder/data" 3600 "$topics" 8 $((gib * 2)) "$gib"
du -s --block-size=1M "$folder/data" | awk '{ print $1 " MiB on disk" }'
drop_caches
start --data "$folder/data" --store "**,bytes=$((gib * 2))GiB"
echo "$gib GiB of $topics topics, killed: listens after $start_ms ms," \
    "$((($(rss_kb) - memory_kb) / 1024)) MiB more than in memory"
begun=$(now_ms)
read_topic $((topics / 2))
echo "first read of an old topic: $(($(now_ms) - begun)) ms, $((($(rss_kb) - memory_kb) / 1024)) MiB more"
begun=$(now_ms)
nth=0
while [ "$nth" -lt 1000 ]; do
    read_topic $((nth * topics / 1000))
    nth=$((nth + 1))
done
echo "1,000 topics read: $(($(now_ms) - begun)) ms, $((($(rss_kb) - memory_kb) / 1024)) MiB more"
stop
rm -rf "$folder/data"

"$publish_rate" "$folder/data" 60 4 64 1 >"$folder/out" &
pid=$!
most=0
while kill -0 "$pid" 2>/dev/null; do
    # A file may go while it is counted.
    size=$(du -s --block-size=1M "$folder/data" 2>/dev/null | cut -f1) || true
    [ "${size:-0}" -le "$most" ] || most=$size
    sleep 0.1
done
# A program that has failed ends this one.
wait "$pid"
pid=
echo "a store of 1 GiB that is filled for a minute: at most $most MiB on disk"
cat "$folder/out"
