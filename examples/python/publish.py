#!/usr/bin/env python3
"""Publish each line of stdin, a JSON value, and retry it until the server answers.

    echo '{"speed":39}' | python3 publish.py http://127.0.0.1:8080/v1/topics/cars
"""

import json
import random
import sys
import time
import uuid
from urllib.parse import urljoin

import requests

session = requests.Session()
# If the server has tokens: session.headers["Authorization"] = "Bearer …"


def publish(url, event):
    """Publishes an event once, even if connections break or the server restarts. Returns its position."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    delay_s = 0.2
    while True:
        try:
            answer = session.post(url, event.encode(), headers=headers, timeout=15)
            if answer.status_code not in (408, 429, 500, 502, 503, 504):
                break
            why = answer.status_code
        except (requests.ConnectionError, requests.Timeout) as cut:
            why = cut
        # Retry with the same key: if the event was published after all, the server does not publish it again.
        print(f"retrying in {delay_s} s: {why}", file=sys.stderr)
        time.sleep(delay_s * random.uniform(0.5, 1))
        delay_s = min(2 * delay_s, 10)
    if not answer.ok:
        raise SystemExit(answer.json()["error"]["message"])
    return answer.json()["position"]


def command(url, **members):
    """Sends a command, and returns the answer."""
    answer = session.post(urljoin(url, "/v1/commands"), json=members, timeout=15)
    answer.raise_for_status()
    return answer.json()["answer"]


if __name__ == "__main__":
    url = sys.argv[1]
    print("echo:", command(url, command="echo", id=1, data="hello"), file=sys.stderr)
    for line in filter(str.strip, sys.stdin):
        print(publish(url, line), flush=True)
