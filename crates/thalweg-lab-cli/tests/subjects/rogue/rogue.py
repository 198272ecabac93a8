"""A subject that misbehaves on purpose: the lab has to catch it.

    rogue.py --listen HOST:PORT [--sin SIN] [--freeze-after SECONDS]

It speaks just enough of docs/reference/messages.md to be measured: the topic bench/0, events
published in one long NDJSON request in chunks, subscribers over WebSocket with
an envelope for each event, and the command `echo`. What it does wrong is its
sin; times count from the first event's arrival.
"""

import argparse
import asyncio
import base64
import hashlib
import math
import time

TOPIC = "bench/0"
# RFC 6455 §1.3.
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE = 1, 8

STALL_EVERY_S, STALL_S = 0.5, 0.3
FREEZE_S = 1.0
STOP_AFTER_S = CUT_AFTER_S = 1.0
# `reorder` waits so long for a successor; then the last event of all comes too,
# and nothing is missing.
SUCCESSOR_WITHIN_S = 0.2
# The loop's timers are as late as a millisecond: this much before the time it
# looks at the clock at every turn.
SPIN_S = 0.002

ECHO = b'{"command":"echo",'


# Faults. Each function returns the (number, event) pairs that an event becomes, given the previous event.

def intact(number, event, _before):
    return [(number, event)]


def drop(number, event, _before):
    return [] if number % 10 == 0 else [(number, event)]


def duplicate(number, event, _before):
    return [(number, event)] * (2 if number % 10 == 0 else 1)


def reorder(number, event, before):
    if number % 10 == 0:
        return []  # It comes after its successor.
    if number % 10 == 1 and before is not None:
        return [(number, event), (number - 1, before)]
    return [(number, event)]


def damage(number, event, _before):
    # Two x stand nowhere but in the pad.
    return [(number, event.replace(b"xx", b"xy", 1) if number % 10 == 0 else event)]


CHANGES = {"drop": drop, "duplicate": duplicate, "reorder": reorder, "damage": damage}


def held_until(options, elapsed_s):
    """Until when nothing is delivered; 0 if something is."""
    if options.sin == "stall":
        # 200 ms of every 500 ms are open, the rest is not.
        phase_s = elapsed_s % STALL_EVERY_S
        is_held, until_s = phase_s >= STALL_EVERY_S - STALL_S, elapsed_s - phase_s + STALL_EVERY_S
    elif options.sin == "freeze":
        until_s = options.freeze_after + FREEZE_S
        is_held = options.freeze_after <= elapsed_s < until_s
    else:
        is_held, until_s = options.sin == "stop" and elapsed_s >= STOP_AFTER_S, math.inf
    return until_s if is_held else 0


class Topic:
    """The one topic: from a publisher's lines to every subscriber's socket."""

    def __init__(self, options):
        self.options = options
        self.change = CHANGES.get(options.sin, intact)
        self.subscribers = set()
        self.number = 0
        self.before = None
        self.began = None  # When the first event arrived, s of CLOCK_MONOTONIC.
        self.waiting = []  # Frames not delivered yet.
        self.waker = None

    def publish(self, events):
        if self.began is None:
            self.began = time.monotonic()
            if self.options.sin == "cut":
                asyncio.get_running_loop().call_at(self.began + CUT_AFTER_S, self.cut)
        for event in events:
            self.number += 1
            self.deliver(self.change(self.number, event, self.before))
            self.before = event
        if self.options.sin == "reorder" and self.number % 10 == 0:
            loop = asyncio.get_running_loop()
            loop.call_later(SUCCESSOR_WITHIN_S, self.give_up_waiting, self.number)
        self.release()

    def give_up_waiting(self, number):
        if self.number == number:
            self.deliver([(number, self.before)])
            self.before = None
            self.release()

    def deliver(self, events):
        self.waiting += [text_frame(envelope(number, number, event)) for number, event in events]

    def release(self):
        """Sends everything that waits, unless it is a time to deliver nothing."""
        until_s = held_until(self.options, time.monotonic() - self.began)
        if until_s == math.inf:
            self.waiting.clear()
        elif until_s > 0:
            if self.waker is None:
                loop = asyncio.get_running_loop()
                self.waker = loop.call_at(self.began + until_s - SPIN_S, self.wake)
        elif self.waiting:
            frames = b"".join(self.waiting)
            self.waiting.clear()
            for subscriber in self.subscribers:
                subscriber.write(frames)

    def wake(self):
        self.waker = None
        self.release()

    def cut(self):
        for subscriber in self.subscribers:
            subscriber.close()


def envelope(number, first, event=b""):
    """Without an event it confirms that the subscription stands."""
    return b'{"topic":"%b","position":"1.%d","first":%d,"events":[%b]}' % (
        TOPIC.encode(), number, first, event)


def text_frame(message):
    """One unmasked frame (RFC 6455 §5.2)."""
    length = len(message)
    if length < 126:
        return b"\x81%c%b" % (length, message)
    if length < 1 << 16:
        return b"\x81\x7e%b%b" % (length.to_bytes(2, "big"), message)
    return b"\x81\x7f%b%b" % (length.to_bytes(8, "big"), message)


def guess(number):
    """The answer to the lab's echo request of this number, without being asked."""
    tail = number * 0x9E3779B9 & 0xFFFFFFFF
    return b'{"answer":{"id":%d,"data":"%08x-7468-416c-8765-%012x"}}' % (number, number, tail)


class Connection(asyncio.Protocol):
    """Reads a request's head, then what follows it: chunks or WebSocket frames."""

    def __init__(self, topic):
        self.topic = topic
        self.input = bytearray()
        self.read = self.read_head
        self.line = b""  # The beginning of one whose end is in the next chunk.
        self.published = 0
        self.answered = 0  # The last echo request that has its answer.

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _error):
        self.topic.subscribers.discard(self.transport)

    def data_received(self, data):
        self.input += data
        while not self.transport.is_closing() and self.read():
            pass

    # Each reads one thing off the input; false if it has not come whole.

    def read_head(self):
        end = self.input.find(b"\r\n\r\n")
        if end < 0:
            return False
        request, *lines = self.input[:end].decode("latin-1").split("\r\n")
        del self.input[:end + 4]
        method, _, target = request.partition(" ")
        path = target.split(" ")[0].split("?")[0]
        fields = {name.lower(): value.strip() for name, value in (it.split(":", 1) for it in lines)}
        is_topic = path == f"/v1/topics/{TOPIC}"
        if method == "GET" and path == "/healthz":
            self.answer("200 OK", b"ok\n", is_last=True)
        elif is_topic and method == "POST" and fields.get("transfer-encoding") == "chunked":
            self.read = self.read_chunk
        elif is_topic and method == "GET" and fields.get("upgrade", "").lower() == "websocket":
            self.subscribe(fields.get("sec-websocket-key", ""))
        else:
            self.answer("404 Not Found", b"", is_last=True)
        return True

    def answer(self, status, body, is_last=False):
        self.transport.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
            status.encode(), len(body), b"Connection: close\r\n" if is_last else b"", body))
        if is_last:
            self.transport.close()

    def subscribe(self, key):
        accept = base64.b64encode(hashlib.sha1(key.encode() + WEBSOCKET_GUID).digest())
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n" % accept
            + text_frame(envelope(self.topic.number, self.topic.number + 1)))
        self.topic.subscribers.add(self.transport)
        self.read = self.read_frame

    def read_chunk(self):
        """RFC 9112 §7.1, without trailers."""
        end = self.input.find(b"\r\n")
        if end < 0:
            return False
        length, start = int(self.input[:end].split(b";")[0], 16), end + 2
        if len(self.input) < start + length + 2:
            return False
        *events, self.line = (self.line + bytes(self.input[start:start + length])).split(b"\n")
        del self.input[:start + length + 2]
        if length == 0 and self.line:
            events, self.line = [self.line], b""
        if events:
            self.published += len(events)
            self.topic.publish(events)
        if length == 0:
            self.read = self.read_head
            last, first = self.topic.number, self.topic.number - self.published + 1
            self.answer("200 OK", b'{"topic":"%b","position":"1.%d","first":%d,"count":%d}' % (
                TOPIC.encode(), last, first, self.published))
            self.published = 0
        return True

    def read_frame(self):
        """One masked frame (RFC 6455 §5.2); the lab sends no messages in parts."""
        if len(self.input) < 2:
            return False
        opcode, length, start = self.input[0] & 15, self.input[1] & 127, 2
        if length >= 126:
            start += 2 if length == 126 else 8
            length = int.from_bytes(self.input[2:start], "big")
        end = start + 4 + length
        if len(self.input) < end:
            return False
        mask = bytes(self.input[start:start + 4]) * (length // 4 + 1)
        masked = int.from_bytes(self.input[start + 4:end], "big")
        message = (masked ^ int.from_bytes(mask[:length], "big")).to_bytes(length, "big")
        del self.input[:end]
        if opcode == CLOSE:
            self.transport.close()
        elif opcode == TEXT and message.startswith(ECHO):
            self.echo(message)
        return True

    def echo(self, request):
        said = request.removeprefix(ECHO)
        if self.topic.options.sin != "early":
            self.transport.write(text_frame(b'{"answer":{%b}' % said))
            return
        # Every request is answered once, but before it is made.
        number = int(said.removeprefix(b'"id":').split(b",")[0])
        early = [text_frame(guess(it)) for it in range(self.answered + 1, number + 2)]
        self.transport.write(b"".join(early))
        self.answered = number + 1


async def serve(options):
    host, _, port = options.listen.rpartition(":")
    topic = Topic(options)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(topic), host.strip("[]"), int(port), backlog=1024)
    await server.serve_forever()


def main():
    arguments = argparse.ArgumentParser(description="A subject that misbehaves on purpose.")
    arguments.add_argument("--listen", required=True, metavar="HOST:PORT")
    arguments.add_argument("--sin", default="none", choices=[
        "none", *CHANGES, "stall", "freeze", "stop", "cut", "early"])
    arguments.add_argument("--freeze-after", type=float, default=1, metavar="SECONDS")
    asyncio.run(serve(arguments.parse_args()))


main()
