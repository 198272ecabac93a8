#!/bin/sh
# Runs what CI runs: builds one after the other, since each keeps all cores busy, then the suites
# side by side, since most of them wait. Prints the seconds of each, and the end of the log of what
# failed. `make test` sets the environment.
set -u

logs=${CARGO_TARGET_DIR:-target}/suites
rm -rf "$logs"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
: > "$THALWEG_SKIPPED"
: > "$logs/seconds"
: > "$logs/failed"
started=${THALWEG_STARTED:-$(date +%s)}

# suite NAME COMMAND…: runs a command with its output in a log of its own.
suite() {
  name=$1
  log="$logs/$(echo "$name" | tr -cs 'a-zA-Z0-9\n' '-').log"
  shift
  begun=$(date +%s)
  echo "  ...    $name"
  if ("$@" && times > "$log.times") > "$log" 2>&1; then
    printf '%5d s, CPU %4d s  %s\n' $(($(date +%s) - begun)) "$(cpu < "$log.times")" "$name" | tee -a "$logs/seconds"
  else
    printf 'FAILED after %d s: %s\n' $(($(date +%s) - begun)) "$name"
    echo "$log" >> "$logs/failed"
    return 1
  fi
}

# Prints the seconds of the processor of all that `times` lists: minutes and seconds, as in 1m2.5s.
cpu() { tr ' ' '\n' | awk -Fm '{ sum += $1 * 60 + $2 } END { printf "%d", sum }'; }

# Prints failures: each log from its first failure on, or all of it without such a mark.
explain() {
  while read -r log; do
    echo
    echo "== $log"
    awk '/^failures:$|^---- .* stdout ----$|^  *[0-9]+\) |^error|^warning: unused|⎯ Failed/ { begun = 1 }
         begun { print; lines++ } END { exit lines == 0 }' "$log" | head -n 400 | grep . || tail -n 100 "$log"
  done < "$logs/failed"
}

finish() {
  echo
  cat "$logs/seconds"
  sort -u "$THALWEG_SKIPPED" | sed 's/^/skipped: /'
  echo "$(sort -u "$THALWEG_SKIPPED" | wc -l) skipped"
  now=$(date +%s)
  [ -z "${built:-}" ] || echo "$((built - started)) s until everything was built, $((now - built)) s for the suites,"
  echo "$((now - started)) s in all"
  if [ -s "$logs/failed" ]; then
    explain
    echo
    echo "failed: $(sed 's/.*\///; s/\.log$//' "$logs/failed" | tr '\n' ' ')"
    exit 1
  fi
}

# interruptible COMMAND…: a shell has its background commands ignore SIGINT, and they pass that on to
# every program that they start. Tests interrupt programs.
interruptible() { env --default-signal=INT,QUIT "$@"; }

# Lints while it compiles, as `cargo clippy` does while it checks: one pass over the workspace, not two.
linting_cargo() {
  interruptible CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
    RUSTC_WORKSPACE_WRAPPER=clippy-driver $CARGO "$@"
}

clippy_without_nats() {
  # The whole workspace, so that the dependencies have the features that they have for the docs.
  $CARGO clippy --locked --workspace --all-targets --no-default-features --quiet -- --deny warnings
}

# The book of the documentation, which the program has in it.
book() { make --no-print-directory book; }

rust_docs() {
  RUSTDOCFLAGS="-D warnings" $CARGO doc --locked --workspace --no-deps --quiet
}

pages() {
  cd web && npm run build && npm run size && npm run check
}

sdk() { cd web && interruptible npm test; }

browser() { cd web && interruptible npm run e2e -w thalweg-e2e -- --project="$1"; }

# The binaries of tests, a line each: the folder of the crate, the kind of target, the file.
# `cargo test` could run them only one after the other, or with other features.
tests() {
  # The examples are linted without NATS.
  linting_cargo test --locked --workspace --lib --bins --tests --no-run --message-format json-render-diagnostics \
    > "$logs/artefacts" || return
  grep '"profile":{[^}]*"test":true' "$logs/artefacts" |
    sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"kind":\["\([a-z]*\)[^]]*\].*"executable":"\([^"]*\)".*/\1 \2 \3/p' \
      > "$logs/binaries"
  [ -s "$logs/binaries" ]
}

# binary FILE FOLDER: runs one where cargo would.
binary() {
  cd "$2" && export CARGO_MANIFEST_DIR="$2" && interruptible "$1"
}

# binaries THREADS GREP…: runs those whose line grep selects, one after the other, each as a suite.
binaries() {
  RUST_TEST_THREADS=$1
  export RUST_TEST_THREADS
  shift
  grep "$@" "$logs/binaries" | while read -r folder kind file; do
    name=$(basename "$folder")
    [ "$kind" != test ] || name="$name (it)"
    suite "$name" binary "$file" "$folder" < /dev/null
  done
}

doc_tests() { linting_cargo test --locked --workspace --doc --quiet; }

# Says how far the suites are.
progress() {
  while sleep 30 > /dev/null 2>&1; do
    passed=$(cat "$logs"/*.log | grep -cE ' \.\.\. ok|✓')
    echo "  ...    $passed tests have passed, $(($(date +%s) - started)) s"
  done
}

# Tests that mostly wait: for an answer, or for what comes once a second.
waiting=$((4 * $(nproc)))
computing=$((2 * $(nproc)))
program='/crates/thalweg test '
# These measure, and need the cores for that: the lab, and its program, which measures programs and tabs.
lab='/crates/thalweg-lab test '
lab_program='/crates/thalweg-lab-cli test '

echo "== build"
suite "format" $CARGO fmt --all --check &&
  suite "pages: build, size, check" pages &&
  suite "book" book &&
  suite "clippy and build of the tests" tests &&
  suite "docs" rust_docs &&
  suite "clippy without NATS" clippy_without_nats ||
  finish
built=$(date +%s)

echo "== suites"
progress &
watching=$!
trap 'kill $watching 2> /dev/null' EXIT
# Suites in the background do not hear of an interrupt by themselves.
trap 'trap - TERM; kill 0' INT TERM
# The browser keeps the cores busy, and tests of the program wait for what happens in time: not side by side.
binaries $waiting -e "$program" &
lanes=$!
{
  binaries $computing -v -e "$program" -e "$lab" -e "$lab_program"
  suite "examples in the docs of crates" doc_tests
  suite "SDK and pages" sdk
} &
lanes="$lanes $!"
for lane in $lanes; do wait "$lane"; done
suite "browser" browser beside
binaries $computing -e "$lab_program" &
lanes=$!
binaries $computing -e "$lab" &
lanes="$lanes $!"
for lane in $lanes; do wait "$lane"; done
suite "browser, under load" browser alone
finish
