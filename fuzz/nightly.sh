#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS with its dictionary and seeds, and fails at the end if one had a finding.
set -u
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-240}
targets=${FUZZ_TARGETS:-$(cargo +nightly fuzz list)}
failed=
for target in $targets; do
  case $target in
    websocket_* | topic | position) dictionary= ;;
    deflate_offer) dictionary=offer ;;
    token) dictionary=token ;;
    request_head) dictionary=head ;;
    settings_file) dictionary=settings ;;
    query) dictionary=query ;;
    *) dictionary=json ;;
  esac
  mkdir -p "fuzz/corpus/$target"
  set -- "fuzz/corpus/$target"
  [ ! -d "fuzz/seeds/$target" ] || set -- "$@" "fuzz/seeds/$target"
  set -- "$@" -- "-max_total_time=$seconds"
  [ -z "$dictionary" ] || set -- "$@" "-dict=fuzz/$dictionary.dict"
  echo "== $target, $seconds s"
  cargo +nightly fuzz run "$target" "$@" || failed="$failed $target"
done
[ -z "$failed" ] || {
  echo "findings in:$failed; above, cargo-fuzz says how to repeat each of them" >&2
  exit 1
}
