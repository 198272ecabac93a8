#!/bin/sh
# Runs a scenario over a link with delay and loss: the subjects in a network
# namespace of their own, the swarm in another. Both are gone when it ends. Needs
# root and iproute2, and where the kernel has no netem, python3. See netem.md.
#
# thalweg-lab is beside PATH/TO/thalweg.
#   lab/netem.sh PATH/TO/thalweg [BENCH ARGUMENTS]      # default: latency --transports websocket
set -eu

[ $# -ge 1 ] || { echo "usage: $0 PATH/TO/thalweg [BENCH ARGUMENTS]"; exit 2; }
[ "$(id -u)" = 0 ] || { echo "$0 makes network namespaces: run it as root"; exit 1; }
command -v ip >/dev/null && command -v tc >/dev/null || {
  echo "$0 needs ip and tc: install iproute2"; exit 1; }

thalweg=$1
shift
[ $# -ge 1 ] || set -- latency --transports websocket

delay_ms=${DELAY_MS:-50}
loss_percent=${LOSS_PERCENT:-1}
near=thalweg-near-$$
far=thalweg-far-$$
relay=
said=

cleanup() {
  [ -z "$relay" ] || kill "$relay" 2>/dev/null || true
  [ -z "$said" ] || rm -f "$said"
  # A namespace takes its end of the link with it, and that the other.
  ip netns del "$far" 2>/dev/null || true
  ip netns del "$near" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A veth pair with netem towards the subscribers; the queue holds whatever is under
# way. One packet is one packet: otherwise 64 KiB would be lost at once.
link_by_netem() {
  ip -n "$near" link add near type veth peer name far netns "$far" &&
    ip -n "$near" link set near gso_max_segs 1 &&
    ip -n "$far" link set far gso_max_segs 1 &&
    tc -n "$far" qdisc add dev far root netem \
      delay "${delay_ms}ms" loss "$loss_percent%" limit 1000000
}

# The same with a process of ours in the middle.
link_by_relay() {
  ip -n "$near" link del near 2>/dev/null || true
  command -v python3 >/dev/null || {
    echo "$0: this kernel has no netem (sch_netem): load it, or install python3"; exit 1; }
  said=$(mktemp)
  python3 "$(dirname "$0")/slow_link.py" "$near" "$far" "$delay_ms" "$loss_percent" >"$said" &
  relay=$!
  until grep -q ready "$said"; do
    kill -0 "$relay" 2>/dev/null || { echo "$0: slow_link.py ended; see above"; exit 1; }
    sleep 0.1
  done
}

ip netns add "$near"
ip netns add "$far"
if link_by_netem 2>/dev/null; then
  echo "link: netem, $delay_ms ms and $loss_percent % loss towards the subscribers"
else
  link_by_relay
  echo "link: slow_link.py, $delay_ms ms and $loss_percent % loss towards the subscribers"
fi
for end in near far; do
  eval "namespace=\$$end"
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set "$end" up
done
ip -n "$near" addr add 10.77.0.1/24 dev near
ip -n "$far" addr add 10.77.0.2/24 dev far

ip netns exec "$near" "$thalweg-lab" bench "$@" --under "ip netns exec $far" --at 10.77.0.2
