"""Send updates from a host of a network on Mininet, and print the frames that the host gets.

    python -m hotline_course.send_updates WORKER KEY VALUE --expect 1

is typed on the host: `h1 python -m …` at Mininet's prompt, or `softswitch net FILE --run h1 "python -m …"`.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence

from hotline_course.frames import HOT_TYPE, HotFrame, decode

INTERFACE = "eth0"
_MAX_FRAME_BYTES = 2048
_TIMEOUT_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if as many frames came as were expected, 1 if not, 2 without the right to send."""
    parser = argparse.ArgumentParser(
        prog="hotline_course.send_updates", description="Send updates from this host."
    )
    parser.add_argument("worker", type=int)
    parser.add_argument("key", type=int)
    parser.add_argument("values", type=int, nargs="+", metavar="value", help="one update each, in order")
    parser.add_argument("--expect", type=int, default=0, metavar="N", help="print N frames that arrive")
    options = parser.parse_args(arguments)
    try:
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(HOT_TYPE))
        wire.bind((INTERFACE, HOT_TYPE))
    except (AttributeError, OSError) as error:
        _say(f"expected a host of a network on Mininet, and root: {error}")
        return 2
    with wire:
        for value in options.values:
            wire.send(HotFrame(options.key, value, options.worker).encode())
        return _print_frames(wire, options.expect)


def _print_frames(wire: socket.socket, expected: int) -> int:
    """Print frames that arrive; a packet socket also gets those that leave."""
    wire.settimeout(_TIMEOUT_S)
    count = 0
    while count < expected:
        try:
            frame, (_, _, kind, *_) = wire.recvfrom(_MAX_FRAME_BYTES)
        except TimeoutError:
            _say(f"expected {expected} frames, got {count} in {_TIMEOUT_S:g} s")
            return 1
        if kind != socket.PACKET_OUTGOING:
            header = decode(frame)
            print(f"op {header.op}, worker {header.worker}, key {header.key}, value {header.value}")
            count += 1
    return 0


def _say(text: str) -> None:
    print(f"hotline_course.send_updates: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
