"""Moves of rows of several dims, some of which have no entry in the switch, in both designs with moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np
import pytest

from foundation.protocol.codec import parse
from foundation.protocol.control import Command, Status
from foundation.protocol.header import Op
from hotline_agents.collect import CollectingServer
from hotline_agents.hotset.ps.parameter_server import OffloadingServer, ParameterServer
from packages.agents.tests.unit.collect.switch_model import Row, SwitchModel
from packages.agents.tests.unit.collect.test_collected_sums import MIXED
from packages.agents.tests.unit.collect.test_collector import JOB, MINE, Bench

KEYS = MINE[:4]  # rows of 1, 16, 16 and 64
SUBSETS = list(chain(*(combinations(KEYS, n) for n in range(len(KEYS) + 1))))


@dataclass
class ForgetfulSwitch(SwitchModel):
    """A switch that loses the entries of some keys before the first push."""

    forgotten: set[int] = field(default_factory=set)

    def answer(self, datagram: bytes) -> bytes | None:
        if parse(datagram).header.op == Op.PUSH:
            self.hot -= self.forgotten
        return super().answer(datagram)


class MovesBench(Bench):
    """A server of either design. The registers of `hotset` are the pending rows of the switch."""

    def __init__(self, server: type[OffloadingServer[str]]) -> None:
        self._server = server
        super().__init__(space=MIXED)
        self.switches[0] = self.forgetful_switch = ForgetfulSwitch()

    # The base class makes a server of `collect`, and a server of `hotset` is not one.
    def _made(self) -> OffloadingServer[str]:  # type: ignore[override]
        return self._server(0, 2, self.space, {JOB: 5}, lambda: self.now, self.as_plain, tables=self.tables)

    def row(self, key: int) -> Row:
        """Return a row that differs from all others in each value."""
        dim = int(self.space.dims_at(np.array([key]))[0])
        return tuple(1000 * (key + 1) + v for v in range(dim))

    def is_owned(self) -> list[bool]:
        owned: list[bool] = self.store.is_owned(self.store.locate(np.array(KEYS, np.uint64))).tolist()
        return owned


@pytest.mark.parametrize("server", [ParameterServer, CollectingServer])
@pytest.mark.parametrize("are_read", [False, True])
@pytest.mark.parametrize("missing", SUBSETS, ids=str)
def test_rows_without_an_entry_stay_at_their_server_or_in_the_switch(
    missing: Sequence[int], are_read: bool, server: type[OffloadingServer[str]]
) -> None:
    """With `are_read`, the entries vanish after the server has read the rows to take them out."""
    bench = MovesBench(server)
    for key in KEYS:
        row = list(bench.row(key))
        assert not bench.worker(Op.PUSH, [key], row, dim=len(row)).header.refused
    rows = {key: bench.row(key) for key in KEYS}
    status = Status.NO_ENTRY if missing else Status.OK

    bench.switch.hot = set(KEYS) - set(missing)
    assert bench.command(Command.SEED, KEYS) is status
    assert bench.is_owned() == [key in missing for key in KEYS]
    assert {key: row for key, row in bench.row_sums().items() if key in KEYS} == rows

    bench.switch.hot = set(KEYS)
    assert bench.command(Command.SEED, KEYS) is Status.OK
    for key in KEYS:
        bench.switch.push(key, *rows[key])
    rows = {key: tuple(2 * value for value in row) for key, row in rows.items()}
    if are_read:
        bench.forgetful_switch.forgotten = set(missing)
    else:
        bench.switch.hot = set(KEYS) - set(missing)
    assert bench.command(Command.COLLECT, KEYS) is status
    assert bench.is_owned() == [key not in missing for key in KEYS]
    assert {key: row for key, row in bench.row_sums().items() if key in KEYS} == rows
    assert all(any(bench.switch.pending_rows[key]) == (key in missing) for key in KEYS)
