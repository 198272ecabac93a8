#!/usr/bin/env bash
# Three NATS servers, three Thalweg nodes and HAProxy on loopback, until Ctrl-C. See docs/how-to/cluster.md.
#
# THALWEG_BIN and NATS_SERVER name the programs. HAProxy listens on PORT, the nodes on NODE_PORT and the next two ports, and the
# NATS servers on NATS_PORT and the next two. For each other, the NATS servers listen on these ports plus 2000.
set -euo pipefail
cd "$(dirname "$0")/.."

thalweg=${THALWEG_BIN:-${CARGO_TARGET_DIR:-target}/release/thalweg}
nats_server=${NATS_SERVER:-target/nats/nats-server}
port=${PORT:-8080}
node_port=${NODE_PORT:-8081}
nats_port=${NATS_PORT:-4222}

# Timeouts in seconds: for nodes to become ready, and for children to end before they are killed.
ready_within=60
end_within=15

fail() {
    echo "$1" >&2
    exit 1
}

[ "${BASH_VERSINFO[0]}${BASH_VERSINFO[1]}" -ge 51 ] || fail "make run-cluster needs bash 5.1 or newer: this one is $BASH_VERSION."
[ -x "$thalweg" ] || fail "there is no program at $thalweg: make run-cluster builds it, or name one with THALWEG_BIN."
[ -x "$nats_server" ] || fail "there is no NATS server at $nats_server: make nats installs it, or name one with NATS_SERVER."
command -v curl >/dev/null || fail "make run-cluster needs curl: please install it."
haproxy=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v haproxy || true)

check_port() { # port, the variable that moves it
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then
        fail "port $1 is in use: choose another with $2, for instance $2=$(($1 + 10000))."
    fi
}
[ -z "$haproxy" ] || check_port "$port" PORT
for i in 0 1 2; do
    check_port $((node_port + i)) NODE_PORT
    check_port $((nats_port + i)) NATS_PORT
    check_port $((nats_port + 2000 + i)) NATS_PORT
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-cluster.XXXXXX")

# Put children into their own process groups, so that Ctrl-C reaches only this script, which ends them in order.
set -m

# Names of the running processes by pid, without those that have ended: their pids may be reused.
declare -A names=()

start() { # name, command…
    local name=$1
    shift
    "$@" </dev/null >"$folder/$name.log" 2>&1 &
    names[$!]=$name
}

# Ends the children whose names begin with $1, and waits for them.
end() {
    local pid pids=() deadline=$((SECONDS + end_within))
    for pid in "${!names[@]}"; do
        [[ ${names[$pid]} != "$1"* ]] || pids+=("$pid")
    done
    for pid in "${pids[@]}"; do
        # A stopped process ends only after SIGCONT.
        kill -TERM "$pid" 2>/dev/null && kill -CONT "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$deadline" ]; do
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        unset "names[$pid]"
    done
}

clean_up() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT
    set +m
    # Users of a service end before the service.
    end node
    end haproxy
    end nats
    rm -rf "$folder"
    exit "$status"
}
trap clean_up EXIT
trap 'echo; echo "ending all processes"; exit 0' INT TERM HUP

routes=
for i in 0 1 2; do
    routes+="${routes:+,}nats://127.0.0.1:$((nats_port + 2000 + i))"
done
for i in 0 1 2; do
    start "nats$((i + 1))" env \
        NATS_NAME="nats$((i + 1))" \
        NATS_LISTEN="127.0.0.1:$((nats_port + i))" \
        NATS_ROUTE="127.0.0.1:$((nats_port + 2000 + i))" \
        NATS_ROUTES="[$routes]" \
        NATS_MONITOR="127.0.0.1:-1" \
        NATS_STORE="$folder/nats$((i + 1))" \
        "$nats_server" --config deploy/nats.conf
done

urls=
for i in 0 1 2; do
    urls+="${urls:+,}nats://127.0.0.1:$((nats_port + i))"
done
for i in 0 1 2; do
    start "node$((i + 1))" "$thalweg" serve --listen "127.0.0.1:$((node_port + i))" \
        --nats "$urls" --stream 'all=**,replicas=3' \
        --demo --node "node$((i + 1))" --source-node node1 --time-node node1
done

if [ -n "$haproxy" ]; then
    start haproxy env \
        BIND="127.0.0.1:$port" \
        NODE1="127.0.0.1:$node_port" \
        NODE2="127.0.0.1:$((node_port + 1))" \
        NODE3="127.0.0.1:$((node_port + 2))" \
        "$haproxy" -db -f deploy/haproxy.cfg
fi

await_ready() { # port, name
    local pid
    until curl --silent --fail --max-time 1 --output /dev/null "http://127.0.0.1:$1/readyz"; do
        for pid in "${!names[@]}"; do
            if ! kill -0 "$pid" 2>/dev/null; then
                tail -n 5 "$folder/${names[$pid]}.log" >&2
                fail "${names[$pid]} has ended, see above."
            fi
        done
        if [ "$SECONDS" -ge "$ready_within" ]; then
            tail -n 5 "$folder/$2.log" >&2
            fail "$2 was not ready within $ready_within s, see above."
        fi
        sleep 0.1
    done
}
echo "three NATS servers and three nodes are starting; logs are in $folder"
for i in 0 1 2; do
    await_ready $((node_port + i)) "node$((i + 1))"
done
if [ -n "$haproxy" ]; then
    await_ready "$port" haproxy
    address="http://127.0.0.1:$port"
else
    address="http://127.0.0.1:$node_port"
    echo "HAProxy is not installed, so each node is reached by its own address (Debian: apt-get install haproxy)."
fi

# All processes run. Without `set +m` the shell itself would report each process that ends.
set +m

echo
echo "open    $address"
[ -z "$haproxy" ] || echo "        HAProxy, which passes each connection to one of the nodes"
for i in 0 1 2; do
    echo "node$((i + 1))   http://127.0.0.1:$((node_port + i))"
done
echo
echo "try     curl -N -H 'Accept: text/event-stream' $address/v1/topics/car_live_data"
echo "        curl -d '{\"hello\":\"world\"}' $address/v1/topics/greetings"
echo
echo "Kill any of these: the cluster survives. Kill one NATS server at a time, because two of three must run."
echo "The script restarts nothing. The demo's cars drive on node1, and stop when it ends."
for name in haproxy node1 node2 node3 nats1 nats2 nats3; do
    for pid in "${!names[@]}"; do
        [ "${names[$pid]}" != "$name" ] || printf '%-8s kill -9 %s\n' "$name" "$pid"
    done
done
echo
echo "Ctrl-C ends all."

# Reports each process that ends, until none is left.
while [ "${#names[@]}" -gt 0 ]; do
    pid=
    wait -n -p pid "${!names[@]}" 2>/dev/null || true
    [ -n "${pid:-}" ] || continue
    echo "${names[$pid]} (pid $pid) has ended"
    unset "names[$pid]"
done
