"""The worker's RPC client for one job with hot keys in the switch: hints, and recovery from its restarts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.protocol.codec import Caller, Keys
from foundation.protocol.header import PS_BITS, WINDOW, WINDOW_BITS
from foundation.protocol.leaf_spine import ServerHomes
from hosts.keys import KeySpace
from hosts.replay import ReplayLog
from hotline_agents.hotset.worker.recovery import renew
from hotline_agents.hotset.worker.state import Calls, CallsHeader, Chain, make_calls, split_window
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps
from hotline_agents.worker.window import MAX_TURN, RESERVED_NUMBERS
from nativekit.plain import plain
from nativekit.records import Octets, records
from nativekit.reference import as_ref


@entry_point
def _renew(state: Calls, home: int, epoch: int) -> None:
    renew(as_ref(state), home, epoch)


class HotsetClient(BaseClient):
    """One worker's calls for one job. `clock` (monotonic, ns) is used where Python sends the datagrams.

    Operations have up to `max_keys` keys; None allows the whole space. With `uses_registers` the caller is a
    PS that reads and writes the switch's registers: all keys travel in their hash lanes, `served` says which
    keys the switch has, refused lanes are not retried, and no RPC is logged. `log` is the replay log, if any.
    """

    state: Calls
    _header: CallsHeader
    servers_own_parameters = False

    def __init__(
        self,
        caller: Caller,
        n_ps: int,
        space: KeySpace,
        clock: Callable[[], int],
        window: int = WINDOW,
        *,
        max_keys: int | None = None,
        ops: AnyWorkerOps = COMPILED,
        uses_registers: bool = False,
        log: ReplayLog | None = None,
    ) -> None:
        self._space = space
        self._renew = _renew if ops is COMPILED else plain(_renew)
        limit = space.size if max_keys is None else max_keys
        words = None if log is None else log.words
        state = make_calls(
            caller, n_ps, space, limit, window, uses_registers=uses_registers, replay_log=words,
            servers_own_parameters=self.servers_own_parameters, levels=1 if log is None else log.levels,
        )  # fmt: skip
        super().__init__(state, clock, ops, log)
        has_unreplayed = log is not None and log.has_unreplayed
        self._header.unreplayed = 1 if has_unreplayed else 0  # 1: search from the first position on

    def _count_values(self, positions: NDArray[np.integer]) -> int:
        return self._space.count_values(positions)

    @property
    def served(self) -> NDArray[np.bool_]:
        """bool[n]: whether the switch served each key of the last operation, until the next operation."""
        served: NDArray[np.bool_] = self.state.served[: self._header.n_keys]
        return served

    @property
    def hinted(self) -> NDArray[np.bool_]:
        """bool[size]: whether the key at each position goes to its hash lane."""
        return np.unpackbits(self.state.hinted, count=self._space.size, bitorder="little").view(np.bool_)

    def hint(self, keys: Keys | None, upper: int = 0) -> None:
        self.state.hinted[:] = self.state.upper[:] = 0
        if keys is not None:
            self._set_bits(self.state.hinted, keys)
            self._set_bits(self.state.upper, keys[:upper])

    def _set_bits(self, bits: Octets, keys: Keys) -> None:
        positions = self._space.positions(keys)
        positions = positions[positions < self._space.size]
        np.bitwise_or.at(bits, positions >> 3, (1 << (positions & 7)).astype(np.uint8))

    def limit_lanes(self, lanes: int, hot_lanes: int | None = None) -> None:
        self._header.max_lane_bits = (lanes - 1).bit_length()
        self._header.max_hot_lane_bits = ((hot_lanes or lanes) - 1).bit_length()

    def set_homes(self, homes: ServerHomes) -> None:
        state, levels = self.state, len(homes)
        if self.log is not None and self.log.levels != levels:
            raise ValueError(f"homes: expected {self.log.levels} levels, as of the replay log, got {levels}")
        level_of_home = {home: level for level, of_servers in enumerate(homes) for home in of_servers}
        windows = split_window(
            self._header, state.free, [level_of_home[k] for k in range(len(level_of_home))]
        )
        self.adopt(
            state._replace(
                homes=np.array(homes, np.int64).ravel(),
                windows=windows,
                chains=records(levels * self._header.n_ps, Chain),
                upper=np.zeros(0 if levels == 1 else len(state.hinted), np.uint8),
            )
        )

    def set_home_index(self, index: int) -> None:
        self._header.home_bits = index << PS_BITS

    def renew(self, epoch: int, home: int = 0) -> None:
        self._renew(self.state, home, epoch)

    def transmit(self) -> tuple[memoryview, int] | None:
        header = self._header
        # Most calls find nothing to send, and need not call compiled code.
        if not header.queued_resends and not (header.n_unsent and header.n_free):
            return None
        return super().transmit()

    def free_numbers(self) -> list[int]:
        """Return the next sequence numbers of the free slots; the last one is used next."""
        numbers: list[int] = self.state.free[: self._header.n_free].tolist()
        return numbers

    def set_free_numbers(self, numbers: list[int]) -> None:
        header = self._header
        self.state.free[: len(numbers)] = numbers
        header.n_free = self.state.windows[0].n_free = len(numbers)
        n_left = sum(MAX_TURN + 1 - (number >> WINDOW_BITS) for number in numbers)
        header.issue_limit = header.n_issued + n_left - RESERVED_NUMBERS
