#!/bin/sh
# Autobahn's WebSocket cases against `thalweg serve --echo-path`. See README.md.
set -eu
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-target}"
work="$target/autobahn"

# The suite is written in Python 2.7. A shim that finds none of that version fails.
python=""
for candidate in "${PYTHON2:-}" python2.7 "$HOME"/.pyenv/versions/2.7*/bin/python2.7 python2; do
    if [ -n "$candidate" ] && "$candidate" -m pip --version >/dev/null 2>&1; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then
    echo "make autobahn needs Python 2.7 with pip (for instance: pyenv install 2.7.18), or PYTHON2=/path/to/python2.7." >&2
    exit 1
fi
for tool in cc; do
    if ! command -v "$tool" >/dev/null; then
        echo "make autobahn needs $tool: please install it." >&2
        exit 1
    fi
done

# A folder of its own for what the suite needs, made once.
site="$work/site"
if ! cmp -s lab/autobahn/requirements.txt "$site/requirements.txt"; then
    rm -rf "$site"
    mkdir -p "$site"
    echo "installing the suite into $site (a few minutes, once)"
    "$python" -W ignore -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$site" -r lab/autobahn/requirements.txt
    # Python 2 takes a folder for a package only with this file in it.
    touch "$site/zope/__init__.py"
    cp lab/autobahn/requirements.txt "$site/"
fi

rm -rf "$work/reports"
mkdir -p "$work/reports"
server_log="$work/server.log"
"$target/${PROFILE:-debug}/thalweg" serve --listen 127.0.0.1:0 --echo-path /echo --compression >"$server_log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT INT TERM
address=""
for _ in $(seq 100); do
    address="$(sed -n 's,^listening on http://,,p' "$server_log")"
    [ -n "$address" ] && break
    sleep 0.1
done
if [ -z "$address" ]; then
    echo "thalweg serve did not start:" >&2
    cat "$server_log" >&2
    exit 1
fi

cat >"$work/spec.json" <<SPEC
{
  "outdir": "$work/reports",
  "servers": [{"agent": "thalweg", "url": "ws://$address/echo", "options": {"version": 13}}],
  "cases": ["*"],
  "exclude-cases": [],
  "exclude-agent-cases": {}
}
SPEC
# It says a line for each case; ours is the summary.
if ! PYTHONPATH="$site" "$python" -W ignore -c 'from autobahntestsuite.wstest import run; run()' \
    --mode fuzzingclient --spec "$work/spec.json" >"$work/suite.log" 2>&1; then
    tail -n 20 "$work/suite.log" >&2
    exit 1
fi
"$python" lab/autobahn/summary.py "$work/reports/index.json" "$work/index.json" "$work/summary.txt"
