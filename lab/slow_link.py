#!/usr/bin/env python3
"""A link with delay and loss between two network namespaces, for kernels
without netem: a tun device in each, and this process carries the packets.

    slow_link.py NEAR FAR DELAY_MS LOSS_PERCENT

Packets from FAR to NEAR are late, and some are lost; the other way they are
neither. Ends with a signal, and takes both devices with it.
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
CLONE_NEWNET = 0x40000000
PACKET_BYTES_MAX = 65536
# As much may be under way as the fastest window asks for.
QUEUE_PACKETS_MAX = 200_000


def tun(namespace, name):
    """A tun device `name` in a namespace; this thread stays there."""
    with open(f"/run/netns/{namespace}") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) != 0:
            sys.exit(f"slow_link.py: {os.strerror(ctypes.get_errno())}: run it as root")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def packets(device):
    """Everything there is to read."""
    while True:
        try:
            yield os.read(device, PACKET_BYTES_MAX)
        except BlockingIOError:
            return


def carry(device, packet):
    try:
        os.write(device, packet)
    except OSError:
        pass  # The queue is full or the device still down: a packet lost.


def main():
    near, far = tun(sys.argv[1], "near"), tun(sys.argv[2], "far")
    delay_s, loss = float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    late = collections.deque()
    while True:
        wait = max(0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([near, far], [], [], wait)
        if near in ready:
            for packet in packets(near):
                carry(far, packet)
        now = time.monotonic()
        if far in ready:
            for packet in packets(far):
                if random.random() >= loss and len(late) < QUEUE_PACKETS_MAX:
                    late.append((now + delay_s, packet))
        while late and late[0][0] <= now:
            carry(near, late.popleft()[1])


main()
