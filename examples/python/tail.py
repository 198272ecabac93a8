#!/usr/bin/env python3
"""Subscribe to a topic, and resume at the last position: over WebSocket, SSE or HTTP streaming.

    python3 tail.py http://127.0.0.1:8080/v1/topics/car_live_data [websocket|sse|http-streaming]
"""

import json
import random
import sys
import time

import requests
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

SILENCE_S = 75  # three heartbeats


def over_websocket(url, query):
    url = url.replace("http", "ws", 1) + f"?cursor={query['cursor']}"
    with connect(url, compression=None, max_size=None) as socket:
        while True:
            yield json.loads(socket.recv(timeout=SILENCE_S))


def over_sse(url, query):
    headers = {"Accept": "text/event-stream"}
    with requests.get(url, query, headers=headers, stream=True, timeout=SILENCE_S) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


def over_http_streaming(url, query):
    headers = {"Accept": "application/x-ndjson"}
    with requests.get(url, query, headers=headers, stream=True, timeout=SILENCE_S) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            yield json.loads(line)


TRANSPORTS = {"websocket": over_websocket, "sse": over_sse, "http-streaming": over_http_streaming}


def messages(url, transport="websocket", cursor="latest"):
    """Yields messages without end, and resumes at the last position. Reports missing events on stderr."""
    delay_s = 0.2
    while True:
        try:
            for message in TRANSPORTS[transport](url, {"cursor": cursor}):
                delay_s = 0.2
                # Envelopes and gaps have the position to resume at; heartbeats have none.
                cursor = message.get("position", cursor)
                if message.get("gap", {}).get("reason") == "unknown":
                    # The last received version of a value topic may not be the newest any more.
                    print("the value is unknown", file=sys.stderr)
                elif "gap" in message:
                    print("missed:", message["gap"], file=sys.stderr)
                if "end" in message:
                    print("ended:", message["end"]["reason"], file=sys.stderr)
                    return
                if not message.get("close", {}).get("reconnect", True):
                    return
                yield message
            why = "the stream ended"
        except (requests.HTTPError, InvalidStatus) as refusal:
            if refusal.response.status_code < 500:
                raise
            why = refusal
        except (ConnectionClosed, OSError, json.JSONDecodeError) as cut:
            why = cut  # errors of requests are OSErrors; an incomplete line is not valid JSON
        print(f"retrying in {delay_s} s: {why}", file=sys.stderr)
        time.sleep(delay_s * random.uniform(0.5, 1))
        delay_s = min(2 * delay_s, 10)


def follow(url, transport="websocket", cursor="latest"):
    """Yields events without end."""
    for message in messages(url, transport, cursor):
        yield from message.get("events", [])


if __name__ == "__main__":
    for event in follow(*sys.argv[1:]):
        print(json.dumps(event), flush=True)
