"""`python -m switch_harness.steady_writer HOST:PORT`: a controller that outlives its switch.

It sets `control.p4`, and writes one entry after the other until its stdin ends. Each is written until a
switch has taken it, and then reported in a line. The last line is what the switch has, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack

import finsy as fy

from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.errors import P4RuntimeError
from softswitch.p4runtime.messages import adopt, p4r
from switch_harness import PROGRAMS
from switch_harness.foreign import read_p4info

PROGRAM = PROGRAMS / "control"
CONFIG = pipeline_config(PROGRAM)
SCHEMA = fy.P4Schema(read_p4info(PROGRAM))
RECEIVER = 0x020000000002
PORT = 2
_UNAVAILABLE, _ALREADY_EXISTS = 14, 6


def entry(address: int) -> p4r.Entity:
    wanted = fy.P4TableEntry(
        "forward",
        match=fy.Match(dst_addr=address),
        action=fy.Action("forward_to", port=PORT),
        metadata=address.to_bytes(6, "big"),
    )
    return adopt(wanted.encode(SCHEMA))


def main(address: str) -> None:
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with Steady(address) as switch:
        switch.client.set_pipeline(CONFIG)
        written = 0
        switch.insert(entry(RECEIVER))
        print(written, flush=True)
        while not ended.is_set():
            switch.insert(entry(written + 1))
            written += 1
            print(written, flush=True)
        entries = switch.client.read(
            adopt(fy.P4TableEntry("forward", counter_data=fy.P4CounterData()).encode(SCHEMA))
        )
        [cell] = switch.client.read(adopt(fy.P4RegisterEntry("cells", index=0).encode(SCHEMA)))
    there = {int.from_bytes(e.table_entry.metadata, "big"): e.table_entry.counter_data for e in entries}
    print(
        json.dumps(
            {
                "there": sorted(there.keys() - {RECEIVER}),
                "forwarded": there[RECEIVER].packet_count,
                "cell": int.from_bytes(cell.register_entry.data.bitstring, "big"),
            }
        )
    )


class Steady:
    """A client that connects anew as often as its switch has gone."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opened = ExitStack()

    def __enter__(self) -> Steady:
        self.client = self._opened.enter_context(P4RuntimeClient(self._address))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def insert(self, entity: p4r.Entity) -> None:
        """Write an entry until it is there; an entry lost with a switch is written to the next one."""
        is_again = False
        while True:
            try:
                self.client.write(p4r.Update(type=p4r.Update.INSERT, entity=entity))
            except P4RuntimeError as error:
                if is_again and error.code == _ALREADY_EXISTS:
                    return
                if error.code != _UNAVAILABLE:
                    raise
                self.__exit__()
                self.__enter__()
                is_again = True
            else:
                return


if __name__ == "__main__":
    main(sys.argv[1])
