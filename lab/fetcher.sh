#!/bin/sh
# What fetching costs: `thalweg serve` on one core, `thalweg demo-provider` and subscribers on
# another. Prints fetches a second and the CPU of each, and how often a match is fetched that
# 10,000 subscribe to. Usage: lab/fetcher.sh [path/to/thalweg, a release build with thalweg-lab beside it]
set -eu

thalweg=${1:-target/release/thalweg}
seconds=10
provider=127.0.0.1:9100
server=127.0.0.1:9101
pids=

cleanup() {
    # Only what was started here.
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
}
trap cleanup EXIT INT TERM

start() {
    taskset -c "$1" "$thalweg" $2 >/dev/null 2>&1 &
    pids="$pids $!"
    started=$!
}

metric() {
    curl -s "http://$server/metrics" | awk -v name="thalweg_$1" \
        'index($1, name "{") == 1 { sum += $NF } END { printf "%.0f", sum }'
}

# CPU of a process so far, in hundredths of a second.
cpu() {
    awk '{ print $14 + $15 }' "/proc/$1/stat"
}

until_up() {
    until curl -s -o /dev/null "http://$1"; do sleep 0.1; done
}

rate() {
    start 1 "demo-provider --listen $provider --size 5KB --matches 1000 --every $1"
    provider_pid=$started
    start 0 "serve --shards 1 --listen $server --upstream matchesfeed/**=http://$provider/{topic},$2"
    server_pid=$started
    until_up "$provider/requests"
    until_up "$server/healthz"
    for part in 0 1 2 3; do
        topics=$(seq $((part * 250 + 1)) $((part * 250 + 250)) |
            sed 's|.*|topic=matchesfeed/&/matchcentre|' | paste -sd '&')
        taskset -c 1 curl -sN -o /dev/null -H 'Accept: application/x-ndjson' \
            "http://$server/v1/topics?$topics" &
        pids="$pids $!"
    done
    sleep 3
    fetches=$(metric upstream_fetches_total)
    known=$(metric upstream_not_modified_total)
    before=$(cpu "$server_pid")
    before_provider=$(cpu "$provider_pid")
    sleep "$seconds"
    fetches=$(($(metric upstream_fetches_total) - fetches))
    known=$(($(metric upstream_not_modified_total) - known))
    server_cpu=$(($(cpu "$server_pid") - before))
    provider_cpu=$(($(cpu "$provider_pid") - before_provider))
    echo "a version every $1: $((fetches / seconds)) fetches/s ($((known / seconds)) of them 304)," \
        "$((server_cpu / seconds)) % CPU of the server, $((provider_cpu / seconds)) % of the provider," \
        "$(metric upstream_errors_total) errors"
    cleanup
    pids=
}

one_for_all() {
    start 1 "demo-provider --listen $provider --size 5KB --every 1s"
    start 0 "serve --shards 1 --listen $server --upstream matchesfeed/**=http://$provider/{topic}"
    until_up "$provider/requests"
    until_up "$server/healthz"
    taskset -c 1 "$thalweg-lab" bench --quiet --out "$(mktemp -d)/run" --connections 10000 \
        --duration "${seconds}s" --url "http://$server/v1/topics/matchesfeed/1/matchcentre" \
        --header 'Accept: application/x-ndjson' --transports http-streaming >/dev/null 2>&1 &
    bench_pid=$!
    pids="$pids $bench_pid"
    until [ "$(metric connections)" -ge 10000 ]; do
        kill -0 "$bench_pid" || exit 1
        sleep 0.2
    done
    before=$(metric upstream_fetches_total)
    versions=$(metric events_published_total)
    known=$(metric upstream_not_modified_total)
    sleep "$seconds"
    echo "10,000 subscribers, a version every 1s, $seconds s:" \
        "$(($(metric upstream_fetches_total) - before)) fetches," \
        "$(($(metric events_published_total) - versions)) versions," \
        "$(($(metric upstream_not_modified_total) - known)) of the fetches 304," \
        "$(metric connections) connections"
    cleanup
    pids=
}

ulimit -n "$(ulimit -Hn)"
rate 1h min-interval=50ms,max-interval=50ms
rate 100ms min-interval=100ms,max-age=100ms
one_for_all
