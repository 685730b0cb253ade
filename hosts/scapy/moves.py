"""The server's part of moves: keys go into the switch and back, while workers pull and push them.

The PS reads and writes the switch's registers by RPCs of its own, to its service address. The switch knows it
as a *privileged* caller, whose lanes reach keys that are being moved, too, and always answers it itself. Such
a pull reads registers; a push adds to them exactly once.

A move adds to one side what it takes from the other, and a key that is being moved is refused by its PS. So a
value exists once at any time, and a move that was interrupted can be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from typing import Protocol, TypeAlias

from scapy.packet import Packet

from foundation.protocol.codec import Caller
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.scapy.packets import (
    CONTROLLER_CALLER,
    PS_CALLER_BASE,
    RESPONSE,
    SLOTS,
    Address,
    Command,
    Hotline,
    HotlineControl,
    Op,
    Status,
    address,
    destination_of,
    source_of,
)
from hosts.scapy.packing import PlannedRpc, encode, pack_hashed
from hosts.scapy.rows import MODULUS, Row, negate
from hosts.scapy.window import Window

_MAX_RANKS = 113  # number of keys with values that fit into a datagram


class MovableStore(Protocol):
    """The parameters of one job at a PS, as `server.ScapyStore` keeps them."""

    in_switch: dict[int, Row]

    def is_in_share(self, key: int) -> bool: ...

    def is_owned(self, key: int) -> bool: ...

    def dim_of(self, key: int) -> int: ...

    def row(self, key: int) -> Row: ...

    def give(self, key: int) -> Row: ...

    def take_back(self, key: int, row: Row) -> None: ...

    def restore(self) -> None: ...

    def busiest(self, limit: int) -> list[tuple[int, int]]: ...


Execution: TypeAlias = Generator[None, None, "CommandResult"]
"""A command under way: it yields while its RPCs to the switch are outstanding."""


class CommandResult:
    """The answer to a command; only that to VALUES has keys and rows, and that to BUSIEST keys and counts."""

    def __init__(self, status: Status, rows: Iterable[tuple[int, Row]] | None = None) -> None:
        self.status = status
        self.rows = None if rows is None else list(rows)


class Moves:
    """The commands of one job at PS `ps` of `n_ps`, which has `epoch` as a caller of the switch."""

    def __init__(
        self,
        job: int,
        ps: int,
        n_ps: int,
        epoch: int,
        store: MovableStore,
        own_address: Address,
        service: Address,
        ranges: RowRanges = ONE_VALUE,
    ) -> None:
        self._caller, self._ranges = Caller(job, PS_CALLER_BASE + ps, epoch), ranges
        self._n_ps, self._store = n_ps, store
        self._address, self._service = own_address, service
        self._window: Window[PlannedRpc] = Window()
        self._op = Op.PULL
        self._deltas: Mapping[int, Row] = {}  # of the current RPCs, if they are pushes
        self._unsent: deque[PlannedRpc] = deque()
        self._served: dict[int, Row] = {}  # keys of the current RPCs that the switch has -> row pulled
        self._commands: deque[Packet] = deque()  # accepted commands, the current one first
        self._execution: Execution | None = None
        self._controller_epoch: int | None = None  # of the newest controller
        self._issued_epoch = 0
        self._latest_seq = [-1] * SLOTS  # of the newest controller, by slot
        self._last_answers: dict[int, tuple[tuple[int, int], Packet]] = {}  # slot -> (epoch, seq), answer
        self._ranking: list[tuple[int, int]] = []

    # -- commands

    def command(self, packet: Packet, now: int) -> list[Packet]:
        """Accept a command of the newest controller; repeat the answer to one that was answered already."""
        rpc = packet[Hotline]
        identity, answer = self._last_answers.get(rpc.seq % SLOTS, (None, None))
        if answer is not None and identity == (rpc.epoch, rpc.seq):
            return [address(answer, destination_of(packet), source_of(packet))]
        if not self._is_of_newest_controller(rpc.epoch):
            self._issued_epoch = (self._issued_epoch + 1) % MODULUS
            refusal = _answer_to(packet, Status.STALE)
            refusal[HotlineControl].keys = [self._issued_epoch]
            return [address(refusal, destination_of(packet), source_of(packet))]
        slot = rpc.seq % SLOTS
        if rpc.seq <= self._latest_seq[slot]:  # a late copy
            return []
        self._latest_seq[slot] = rpc.seq
        if packet[HotlineControl].code == Command.RENEW:
            self._renew(packet[HotlineControl].keys[0])
        self._commands.append(packet)
        return self._advance(now)

    def _is_of_newest_controller(self, epoch: int) -> bool:
        # A late copy of an earlier controller's command could undo later commands. A controller is newer if
        # its epoch was issued after that of the newest one; the first controller may have any epoch.
        newest = self._controller_epoch
        if newest is None:
            self._controller_epoch = self._issued_epoch = epoch
        elif epoch != newest:
            if (epoch - newest) % MODULUS > (self._issued_epoch - newest) % MODULUS:
                return False
            self._controller_epoch, self._latest_seq = epoch, [-1] * SLOTS
        return True

    def _renew(self, epoch: int) -> None:
        """Continue with the switch of an epoch; if it is another one, the old one's values are lost."""
        if epoch != self._caller.epoch:
            self._caller = self._caller._replace(epoch=epoch)
            self._window, self._execution = Window(), None
            self._unsent.clear()
            self._commands.clear()
            self._store.restore()

    def _advance(self, now: int) -> list[Packet]:
        """Execute commands, one after the other, until one waits for the switch."""
        packets = []
        while self._commands and not self._is_waiting:
            packet = self._commands[0]
            if self._execution is None:
                self._execution = self._execute(packet[HotlineControl], packet[Hotline].dim)
            try:
                next(self._execution)
            except StopIteration as end:
                self._execution = None
                self._commands.popleft()
                packets.append(self._answer(packet, end.value))
        return packets + self._send(now)

    def _answer(self, packet: Packet, result: CommandResult) -> Packet:
        answer, rpc = _answer_to(packet, result.status), packet[Hotline]
        if result.rows is None:
            answer[HotlineControl].n = packet[HotlineControl].n
        else:
            answer[HotlineControl].keys = [key for key, _ in result.rows]
            answer[HotlineControl].values = [value for _, row in result.rows for value in row]
        self._last_answers[rpc.seq % SLOTS] = (rpc.epoch, rpc.seq), answer
        return address(answer, destination_of(packet), source_of(packet))

    def _execute(self, command: Packet, dim: int) -> Execution:
        if command.code == Command.BUSIEST:
            first_rank, limit = command.keys
            if first_rank == 0:  # the first page of a new ranking
                self._ranking = self._store.busiest(limit)
            ranks = self._ranking[first_rank : first_rank + _MAX_RANKS]
            return CommandResult(Status.OK, ((key, (updates,)) for key, updates in ranks))
        if command.code in (Command.RENEW, Command.HELLO, Command.PUBLISH, Command.HOLD, Command.SETTLE):
            return CommandResult(Status.OK)
        store = self._store
        if not all(map(store.is_in_share, command.keys)):
            return CommandResult(Status.NOT_OWNED)
        if command.code == Command.VALUES:
            if any(store.dim_of(key) != dim for key in command.keys):
                return CommandResult(Status.NOT_OWNED)
            return CommandResult(Status.OK, [(key, store.row(key)) for key in command.keys])
        if command.code == Command.SEED:
            is_complete = yield from self._seed({key for key in command.keys if store.is_owned(key)})
        else:
            is_complete = yield from self._collect({key for key in command.keys if not store.is_owned(key)})
        return CommandResult(Status.OK if is_complete else Status.NO_ENTRY)

    def _seed(self, keys: set[int]) -> Generator[None, None, bool]:
        """Refuse the keys from now on, then add their rows to the switch's registers."""
        rows = {key: self._store.give(key) for key in keys}
        served = yield from self._call_switch(Op.PUSH, rows)
        for key in keys - set(served):  # the switch has no entry
            self._store.take_back(key, rows[key])
        return keys == set(served)

    def _collect(self, keys: set[int]) -> Generator[None, None, bool]:
        """Read each row v from the switch, add -v there, and v here."""
        rows = yield from self._call_switch(Op.PULL, dict.fromkeys(keys, ()))
        removed = yield from self._call_switch(Op.PUSH, {key: negate(row) for key, row in rows.items()})
        for key in removed:
            self._store.take_back(key, rows[key])
        return keys == set(removed)

    # -- RPCs to the switch

    def _call_switch(self, op: Op, deltas: Mapping[int, Row]) -> Generator[None, None, dict[int, Row]]:
        """Pull keys from the switch, or push deltas to it; return the keys that it has, and pulled rows."""
        self._window.check_numbers()
        self._op, self._deltas, self._served = op, deltas, {}
        self._unsent += pack_hashed(sorted(deltas), self._n_ps, self._ranges)
        if self._is_waiting:
            yield
        return self._served

    @property
    def _is_waiting(self) -> bool:
        return bool(self._unsent or len(self._window))

    def _send(self, now: int) -> list[Packet]:
        packets = []
        while self._unsent and self._window.has_room:
            call = self._unsent.popleft()
            rpc = encode(self._caller, self._op, call, self._deltas)
            packet = address(rpc, self._address, self._service)
            packets.append(self._window.send(packet, call, now))
        return packets

    def handle_answer(self, packet: Packet, now: int) -> list[Packet]:
        outstanding = self._window.take_answered(packet, now)
        if outstanding is None:
            return []
        answer = packet[Hotline]
        for lane, key in outstanding.call.keys.items():
            if answer.served >> lane & 1:
                row = answer.values[lane * answer.dim : (lane + 1) * answer.dim] if answer.values else ()
                self._served[key] = tuple(row)
        return self._advance(now) if not self._is_waiting else self._send(now)

    def deadline(self) -> int | None:
        return self._window.deadline()

    def wake(self, now: int) -> list[Packet]:
        return self._window.overdue(now)


def _answer_to(command: Packet, status: Status) -> Packet:
    rpc = command[Hotline]
    header = Hotline(
        op=int(Op.CONTROL), flags=RESPONSE, job=rpc.job, worker=CONTROLLER_CALLER, epoch=rpc.epoch,
        ps=rpc.ps, dim=rpc.dim, seq=rpc.seq,
    )  # fmt: skip
    header.add_payload(HotlineControl(code=command[HotlineControl].code, status=int(status)))
    return header
