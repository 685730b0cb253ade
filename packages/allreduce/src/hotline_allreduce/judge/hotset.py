"""The hot set for the judge: pushes of two keys, which the controller moves between the switch and a server.

A controller's command to the server is one event, as are its writes to the switch; what the server then reads
and adds at the switch are packets, which can be lost, copied and late as those of workers. After a restart of
the switch, events are the steps of its recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from hotline_allreduce.judge.description import (
    SERVER,
    Description,
    Event,
    JudgedSystem,
    Sendable,
    SentFrame,
    Violation,
    death_of,
    letter,
)
from hotline_allreduce.judge.hotset_rules import (
    DRAINING,
    HOT,
    HOT_KEY,
    KEYS,
    LIVES,
    REPLAY,
    RESERVED,
    HotCaller,
    HotOp,
    HotRpc,
    HotServerModel,
    HotSwitchModel,
    HotWorker,
)


@dataclass
class HotMover(HotCaller):
    """The server's moves of keys, and the controller."""

    moves: int = 0  # that the controller may still begin
    key: int | None = None  # that is being moved
    has_moved: bool = False  # whether the value is where it goes


class HotSetDescription(Description):
    name = "hotset"

    def __init__(
        self, workers: int = 2, window: int = 2, pushes: int = 3, moves: int = 0, has_successors: bool = False
    ) -> None:
        self.workers, self.window, self.moves, self.chunks = workers, window, moves, range(pushes)
        self.has_successors = has_successors

    def system(self) -> JudgedSystem:
        workers = [HotWorker(worker, self.window) for worker in range(self.workers)]
        for worker in workers:
            worker.send(
                HotRpc(
                    worker.caller, 1, 0, 0, HotOp.PUSH, number,
                    tuple((key, self.addend(worker.caller, number)) for key in KEYS),
                )
                for number in self.chunks
            )  # fmt: skip
        mover = HotMover(self.workers, window=1, moves=self.moves)
        switch = HotSwitchModel({HOT_KEY: HOT}, mover.caller)
        return JudgedSystem(switch, [*workers, mover], HotServerModel(set(KEYS) - {HOT_KEY}))

    def sendable(self, host: int, state: HotCaller) -> Iterator[Sendable]:
        for is_late, rpcs in ((True, state.earlier), (False, list(state.outstanding.values()))):
            for rpc in rpcs:
                yield Sendable(self._name_of(host, rpc), rpc, is_late)

    def _name_of(self, host: int, rpc: HotRpc) -> str:
        if host == self.workers:
            return f"the server's {rpc.op.value} of key {rpc.keys[0]}"
        name = f"{letter(host)}{'*' if rpc.number == REPLAY else rpc.number} (slot {rpc.slot})"
        return f"question about {name}" if rpc.op is HotOp.STATUS else name

    def at_switch(self, system: JudgedSystem, packet: HotRpc) -> list[SentFrame]:
        served = system.switch.take(packet)
        if served is None:
            return []
        if packet.op is HotOp.PULL:
            values = tuple((key, system.switch.values[key]) for key in served)
            packet = packet._replace(deltas=values)
        is_answer = packet.caller == self.workers or set(served) == set(packet.keys)
        return [SentFrame(packet.caller if is_answer else SERVER, packet._replace(served=served))]

    def at_server(self, system: JudgedSystem, packet: HotRpc) -> list[SentFrame]:
        added = system.server.take(packet)
        return [] if added is None else [SentFrame(packet.caller, packet._replace(added=added))]

    def at_host(self, system: JudgedSystem, host: int, packet: HotRpc) -> None:
        if host == self.workers:
            self._at_mover(system, system.hosts[host], packet)
        else:
            system.hosts[host].answer(packet)

    def _at_mover(self, system: JudgedSystem, mover: HotMover, answer: HotRpc) -> None:
        rpc = mover.take(answer)
        if rpc is None:
            return
        [(key, value)] = answer.deltas
        if rpc.op is HotOp.PULL:
            mover.send([rpc._replace(op=HotOp.PUSH, deltas=((key, -value),))])
            return
        if system.switch.entries[key] == DRAINING:
            system.server.reclaim(key, -value)
        mover.has_moved = True

    # -- the controller

    def events(self, system: JudgedSystem) -> dict[str, Event]:
        return {**self._successions(system), **self._controller_events(system)}

    def _successions(self, system: JudgedSystem) -> dict[str, Event]:
        workers = system.hosts[: self.workers] if self.has_successors else []
        found: dict[str, Event] = {}
        for worker in workers:
            name = letter(worker.caller)
            if death_of(worker.caller) in system.happened:
                found[f"a successor of {name} begins"] = partial(self._succeed, system, worker)
            elif worker.is_successor and not worker.outstanding and not self._is_late(system, worker):
                found[f"the successor of {name} takes part"] = partial(self._take_part, system, worker)
        return found

    def _succeed(self, system: JudgedSystem, worker: HotWorker) -> None:
        system.happened.discard(death_of(worker.caller))
        worker.succeed()

    def _take_part(self, system: JudgedSystem, worker: HotWorker) -> None:
        system.switch.admit(worker.caller, worker.epoch + 1)
        worker.take_part(worker.epoch + 1)

    def _is_late(self, system: JudgedSystem, host: HotCaller) -> bool:
        return bool(host.epoch != system.switch.epoch_of(host.caller))

    def _controller_events(self, system: JudgedSystem) -> dict[str, Event]:
        switch, mover = system.switch, system.hosts[self.workers]
        late_workers = [
            worker
            for worker in system.hosts
            if self._is_late(system, worker)
            and not (self.has_successors and death_of(worker.caller) in system.happened)
        ]
        if mover.epoch != switch.epoch:
            return {"the server takes back its values": partial(self._renew, system)}
        if late_workers:
            [worker, *_] = late_workers
            return {f"{letter(worker.caller)} recovers": partial(worker.recover, switch.epoch)}
        if mover.key is None:
            states = {key: DRAINING if key in switch.entries else RESERVED for key in KEYS if mover.moves}
            return {
                f"key {key} is {state}": partial(self._begin, system, key, state)
                for key, state in states.items()
            }
        is_leaving = switch.entries[mover.key] == DRAINING
        if mover.has_moved:
            state = "deleted" if is_leaving else HOT
            return {f"key {mover.key} is {state}": partial(self._finish, system, is_leaving)}
        if mover.outstanding:
            return {}
        verb = "takes" if is_leaving else "gives"
        return {f"the server {verb} key {mover.key}": partial(self._command, system, is_leaving)}

    def _renew(self, system: JudgedSystem) -> None:
        mover: HotMover = system.hosts[self.workers]
        system.server.restore()
        mover.renew(system.switch.epoch)
        mover.key, mover.has_moved, mover.moves = None, False, mover.moves + 1  # the key may come back

    def _begin(self, system: JudgedSystem, key: int, state: str) -> None:
        mover: HotMover = system.hosts[self.workers]
        mover.key, mover.moves, system.switch.entries[key] = key, mover.moves - 1, state

    def _command(self, system: JudgedSystem, is_leaving: bool) -> None:
        mover: HotMover = system.hosts[self.workers]
        assert mover.key is not None
        value = 0 if is_leaving else system.server.release(mover.key)
        op = HotOp.PULL if is_leaving else HotOp.PUSH
        mover.send([HotRpc(mover.caller, mover.epoch, 0, 0, op, 0, ((mover.key, value),))])

    def _finish(self, system: JudgedSystem, is_leaving: bool) -> None:
        mover: HotMover = system.hosts[self.workers]
        assert mover.key is not None
        if is_leaving:
            del system.switch.entries[mover.key]
        else:
            system.switch.entries[mover.key] = HOT
        mover.key, mover.has_moved = None, False

    def restart_switch(self, system: JudgedSystem) -> None:
        system.switch = HotSwitchModel({}, self.workers, system.switch.epoch + LIVES)

    # -- what is right

    def violations(self, system: JudgedSystem) -> Iterator[Violation]:
        """Yield WRONG if an acknowledged push is not added once to a key, or another one more than once."""
        workers = system.hosts[: self.workers]
        is_recovering = any(self._is_late(system, host) for host in system.hosts)
        if is_recovering or any(worker.is_replaying for worker in workers):
            return
        for key in KEYS:
            total = self._total(system, key)
            for worker in workers:
                for number in self.chunks:
                    count = total // self.addend(worker.caller, number) & 3
                    if count > 1 or (count == 0 and (number, key) in worker.acknowledged):
                        yield Violation.WRONG
                        return

    def _total(self, system: JudgedSystem, key: int) -> int:
        """Return the sum of all values of a key, also of that which is on its way."""
        switch, server, mover = system.switch, system.server, system.hosts[self.workers]
        total: int = server.values[key] + (switch.values[key] if key in switch.entries else 0)
        for rpc in mover.outstanding.values():
            if rpc.op is HotOp.PUSH and rpc.keys == (key,):
                is_added = switch.last.get((rpc.caller, rpc.slot), (0, ()))[0] == rpc.turn
                is_leaving = switch.entries[key] == DRAINING
                total += rpc.deltas[0][1] * (not is_added) - rpc.deltas[0][1] * is_leaving
        return total

    def is_done(self, host: HotCaller) -> bool:
        return (
            not host.outstanding and not host.queue and (not isinstance(host, HotMover) or host.key is None)
        )
