"""`python -m tests.harness.steady_writer HOST:PORT`: a controller that outlives its switch.

It sets `control.p4`, says `ready`, and writes one entry after the other until its stdin ends. Each is
written until a switch has taken it. Then it prints what it has written, and what the switch has, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from finsy.proto import p4r

from targets.errors import P4RuntimeError
from targets.p4runtime import P4RuntimeClient, pipeline_config

PROGRAM = Path(__file__).parents[1] / "programs" / "compiled" / "control"
CONFIG = pipeline_config(PROGRAM)
RECEIVER = 0x020000000002
PORT = 2
_UNAVAILABLE, _ALREADY_EXISTS = 14, 6


def identity(name: str) -> int:
    """The P4Info ID of what has this alias."""
    groups = (CONFIG.p4info.tables, CONFIG.p4info.actions, CONFIG.p4info.registers)
    return next(each.preamble.id for group in groups for each in group if each.preamble.alias == name)


def entry(address: int, port: int = PORT) -> p4r.Entity:
    """An entry of table `forward`."""
    answer = p4r.Entity()
    answer.table_entry.table_id = identity("forward")
    match = answer.table_entry.match.add(field_id=1)
    match.exact.value = address.to_bytes(6, "big").lstrip(b"\0")
    answer.table_entry.metadata = address.to_bytes(6, "big")
    call = answer.table_entry.action.action
    call.action_id = identity("forward_to")
    call.params.add(param_id=1, value=port.to_bytes(1, "big"))
    return answer


def main(address: str) -> None:
    """See above."""
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with Steady(address) as switch:
        switch.client.set_pipeline(CONFIG)
        written = 0
        switch.insert(entry(RECEIVER))
        print("ready", flush=True)
        while not ended.is_set():
            written += 1
            switch.insert(entry(written))
        query = p4r.TableEntry(table_id=identity("forward"), counter_data=p4r.CounterData())
        register = p4r.RegisterEntry(register_id=identity("cells"), index=p4r.Index(index=0))
        entries = switch.client.read(p4r.Entity(table_entry=query))
        [cell] = switch.client.read(p4r.Entity(register_entry=register))
    there = {int.from_bytes(e.table_entry.metadata, "big"): e.table_entry.counter_data for e in entries}
    print(
        json.dumps(
            {
                "written": written,
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
        """Until it is there; one that was written when the switch went, the next one has."""
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
