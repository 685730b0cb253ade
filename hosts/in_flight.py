"""A worker's requests without an answer, in a file that outlives the worker.

The worker maps the file: the datagram of each slot of its window is there, and its length while no answer has
come. A request's bytes are complete before its length is written, and the length is 0 again only after its
answer is in the ledger. So a worker that takes the rank of a killed one knows the
requests that switch and servers may have executed, and sends the same bytes again: they execute no request
twice (`hosts.succession`). A further word says whether the switch has been lost since the push began: then
requests of the push may be missing here, which were sent to that switch.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from foundation.compiled import entry_point
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import BUFFER_BYTES, RPC, Rpc
from hosts.ledger import check_file, create_file
from nativekit.memory import store_item_release
from nativekit.records import CACHE_LINE_BYTES, Ints, Records, as_records

_MAGIC = 0x544847494C464E49  # arbitrary; "INFLIGHT" in the file, which is little-endian
_FIELDS = ["magic", "size"]
LOST_SWITCH = WINDOW
"""Index, behind the lengths of the slots, of the word that is 1 if the push has outlived its switch."""
_HEAD = np.dtype({"names": _FIELDS, "formats": ["<i8"] * len(_FIELDS), "itemsize": CACHE_LINE_BYTES})
"""`size` is the number of slots."""


def file_name(worker: int, job: int) -> str:
    return f"in-flight-worker-{worker}-job-{job}.bin"


class InFlight(NamedTuple):
    """The mapped arrays of the file."""

    lengths: Ints  # int64[WINDOW + 1]: bytes of each slot's request, or 0 without one; then `LOST_SWITCH`
    datagrams: Records[Rpc]  # Rpc[WINDOW]

    def put(self, slot: int, datagram: bytes) -> None:
        """Write a request before it is sent for the first time."""
        octets = self.datagrams[slot : slot + 1].view(np.uint8)
        octets[: len(datagram)] = np.frombuffer(datagram, np.uint8)
        _store(self.lengths, slot, len(datagram))

    def clear(self, slot: int) -> None:
        """Remove a request whose answer has been noted."""
        _store(self.lengths, slot, 0)

    def requests(self) -> dict[int, bytes]:
        """Return the requests without an answer, by slot."""
        return {
            int(slot): self.datagrams[slot].tobytes()[: self.lengths[slot]]
            for slot in np.flatnonzero(self.lengths[:WINDOW])
        }

    @property
    def is_complete(self) -> bool:
        """Whether every request of the push under way that may have been executed is answered or here."""
        return not self.lengths[LOST_SWITCH]


def create(path: Path) -> InFlight:
    """Create the file of a worker that starts, or replace that of another one. Raises `LedgerError`."""
    create_file(path, sum(_section_bytes()), np.array([(_MAGIC, WINDOW)], _HEAD).tobytes())
    return reopen(path)


def reopen(path: Path) -> InFlight:
    """Map the file of a worker that has ended. Raises `LedgerError`."""
    check_file(path, _HEAD, _MAGIC, lambda head: _section_bytes(), "file of requests in flight")
    content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))
    _, lengths, datagrams = np.split(content, np.cumsum(_section_bytes())[:-1])
    buffers: Records[Rpc] = as_records(datagrams.view(RPC))
    return InFlight(lengths.view(np.int64), buffers)


@entry_point
def _store(lengths: Ints, slot: int, length: int) -> None:
    store_item_release(lengths, slot, length)


def _section_bytes() -> list[int]:
    return [_HEAD.itemsize, 8 * (WINDOW + 1), BUFFER_BYTES * WINDOW]
