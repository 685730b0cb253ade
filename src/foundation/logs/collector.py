"""The log collector, which adds up the update counts that each PS sends for its parameters (Pan et al. §2.2).

A PS connects to a Unix socket, writes the number of rows (`COUNT`) and the rows (`ROW`), and shuts down
writing. The answer is a line of JSON: `{"updates": <sum>}`, or `{"error": <text>}` if nothing was saved.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.concurrency import in_thread
from foundation.errors import DataError
from foundation.logs.columns import UPDATES
from foundation.logs.parts import Parts
from foundation.text import pluralize

COLLECTOR = Path("/run/hotline-collector")
"""Socket of a run's collector. It is not in the run folder, whose file system may not support sockets."""
COUNT = struct.Struct("<Q")
ROW = np.dtype([("job", "<u2"), ("ps", "<u2"), ("key", "<u8"), ("updates", "<u8")])
"""Row of the log `updates`: the number of updates that one PS has counted for one parameter of one job."""
_TIMEOUT_S = 30.0


class UpdateLogCollector:
    """Cumulative statistics of each PS; the newest are saved in `directory` as parts of the log `updates`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sums: dict[int, int] = {}  # PS -> updates of all its parameters

    @property
    def updates(self) -> int:
        return sum(self._sums.values())

    @property
    def servers(self) -> int:
        return len(self._sums)

    def receive(self, octets: bytes) -> int:
        rows = _parse(octets)
        ps, updates = int(rows["ps"][0]), int(rows["updates"].sum())
        previous = self._sums.get(ps, 0)
        if updates < previous:
            raise DataError(
                f"PS {ps} sent {updates:,} updates, and {previous:,} before: counts must not decrease"
            )
        parts = Parts(self._directory, f"updates-ps-{ps}", UPDATES)
        parts.write({name: rows[name] for name in UPDATES})
        self._sums[ps] = updates
        return updates

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer: dict[str, object] = {"updates": await in_thread(self.receive, await reader.read())}
        except DataError as error:
            answer = {"error": str(error)}
        except ConnectionError:
            return
        try:
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except ConnectionError:
            pass  # The PS saves its statistics itself if it gets no answer.
        finally:
            writer.close()


@asynccontextmanager
async def run_collector(directory: Path, path: Path) -> AsyncIterator[UpdateLogCollector]:
    """Run a collector at a path, replacing a stale socket; raise `OSError` if it cannot listen there."""
    collector = UpdateLogCollector(directory)
    server = await asyncio.start_unix_server(collector.answer, path)
    try:
        yield collector
    finally:
        server.close()
        await server.wait_closed()
        path.unlink(missing_ok=True)


def send(rows: NDArray[np.void], path: Path) -> None:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(COUNT.pack(len(rows)))
            connection.sendall(rows.tobytes())
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answers:
                answer = json.loads(answers.readline() or "{}")
    except (OSError, ValueError) as error:
        raise DataError(f"log collector {path}: {error}") from error
    if answer.get("updates") != int(rows["updates"].sum()):
        raise DataError(f"log collector {path}: {answer.get('error', 'the update counts were not saved')}")


def _parse(octets: bytes) -> NDArray[np.void]:
    count = COUNT.unpack_from(octets)[0] if len(octets) >= COUNT.size else 0
    expected_bytes = COUNT.size + count * ROW.itemsize
    if not count:
        raise DataError(f"statistics: expected at least one row, got none in {len(octets):,} bytes")
    if len(octets) != expected_bytes:
        rows_text = pluralize(count, "row")
        raise DataError(f"statistics: expected {expected_bytes:,} bytes for {rows_text}, got {len(octets):,}")
    rows: NDArray[np.void] = np.frombuffer(octets, ROW, count, COUNT.size)
    if (rows["ps"] != rows["ps"][0]).any():
        raise DataError(f"expected statistics of one PS, got those of PSs {np.unique(rows['ps']).tolist()}")
    return rows
