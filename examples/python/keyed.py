#!/usr/bin/env python3
"""Follow a keyed topic, and print its keys and their newest events whenever they change.

    python3 keyed.py http://127.0.0.1:8080/v1/topics/car_positions [websocket|sse|http-streaming]
"""

import json
import sys

from tail import messages


def states(messages):
    """Yields each state of the topic as a dict, and never an incomplete one."""
    shown, keys, until = None, {}, 0
    for message in messages:
        if "gap" in message:
            # All keys follow. Until they have arrived, the old state remains.
            keys, until = {}, 0
        elif "keys" in message:
            for key, event in zip(message["keys"], message["events"]):
                if event is None:
                    keys.pop(key, None)
                else:
                    keys[key] = event
            # A message omits events that newer ones replaced, and the newer ones may be in a later message.
            until = max(until, message.get("until", 0))
            offset = int(message["position"].split(".")[1])
            if offset >= until and keys != shown:
                shown = dict(keys)
                yield shown


if __name__ == "__main__":
    for state in states(messages(*sys.argv[1:])):
        print(json.dumps(state), flush=True)
