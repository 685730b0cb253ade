"""Strikes: each begins a fault, and sees to its end; `n` is its place in the player's evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from controller.errors import NotPrimary
from controller.hotset.migrate import plan
from simulator.faults.operations import KEYS
from simulator.faults.player import MS, Player, StrikeKind
from simulator.faults.schedule import WORKERS, Strike
from simulator.faults.switch import Session

_LOOK_NS = 500_000
"""Between two looks whether who is to be killed is there again."""


def _on_cable(player: Player, strike: Strike, n: int) -> None:
    """A host's cable is down, or slower."""
    world, before = player.bed.world, player.answered()
    links, late = (world.up[strike.who], world.down[strike.who]), strike.amount * 1_000
    was = [int(link.lost if strike.kind == "link" else link.frames) for link in links]

    def change(by: int) -> None:
        for link in links:
            if strike.kind == "link":
                link.down += by
            else:
                link.delay += by * late

    def end() -> None:
        change(-1)
        now = [int(link.lost if strike.kind == "link" else link.frames) for link in links]
        player.evidence[n] = now != was
        player.heal(before)

    change(1)
    player.at(strike.lasts_us * 1_000, end)


def _worker_dies(player: Player, strike: Strike, n: int) -> None:
    """A worker dies, and comes back if it is to."""
    bed, w, before = player.bed, strike.who, player.answered()
    if bed.world.agents.dead[w]:
        player.heal(before)
        return
    if strike.behind_us is None and not bed.world.calls.me.pending[w]:
        # Where nothing is under way, it is not killed.
        player.at(player.random.randrange(30_000), lambda: _worker_dies(player, strike, n))
        return
    player.evidence[n] = True
    player.cluster.kill_worker(w)
    if strike.kind == "worker killed":
        player.heal(before)
        return

    def come_back() -> None:
        player.cluster.start_worker(w)
        player.begin(player.at_last(lambda: player.cluster.admit(w)))
        player.returned.append((w, bed.now))
        player.heal(before)

    player.at(strike.lasts_us * 1_000, come_back)


def _server_restarts(player: Player, strike: Strike, n: int) -> None:
    """A server dies and comes back."""
    bed, p, before = player.bed, strike.who, player.answered()
    if bed.world.agents.dead[WORKERS + p]:
        player.at(_LOOK_NS, lambda: _server_restarts(player, strike, n))
        return
    # Of what its journal begins with, its checkpoint may be all.
    bed.servers[p].keep_at_times(player.random)
    player.cluster.kill_server(p)
    frames = int(bed.world.down.frames[WORKERS + p])

    def come_back() -> None:
        # What came meanwhile was lost with it.
        is_missed = int(bed.world.down.frames[WORKERS + p]) > frames
        player.evidence[n] = is_missed or strike.behind_us is not None
        player.cluster.start_server(p)
        player._send_from(p)
        player.heal(before)

    player.at(strike.lasts_us * 1_000, come_back)


def _switch_restarts(player: Player, strike: Strike, n: int) -> None:
    """The switch goes off and comes back empty."""
    world, cluster, before = player.bed.world, player.cluster, player.answered()
    if cluster.switch_is_dead:
        player.at(_LOOK_NS, lambda: _switch_restarts(player, strike, n))
        return
    had, refused = bool(world.calls.kept[:, 0].any()), int(world.me.refused)
    player.blind.append([player.bed.now, 2**62])
    cluster.kill_switch(strike.lasts_us * 1_000)

    def end(_: object) -> None:
        player.evidence[n] = (had and int(world.me.refused) > refused) or strike.behind_us is not None
        player.heal(before)

    player.begin(player.until_restored(cluster.restarts + 1)).add_done_callback(end)


def _controller_dies(player: Player, strike: Strike, n: int) -> None:
    """A controller dies while it moves keys; another one finishes, with another set."""
    before, first = player.answered(), _another_set(player)

    def die(session: Session, task: asyncio.Task[Any]) -> None:
        player.evidence[n] = not task.done()
        player.kill(session, task)
        player.at(strike.lasts_us * 1_000, follow)

    def follow() -> None:
        player.wanted = player.random.choice([first, _another_set(player)])
        done = player.begin(player.load_wanted())
        done.add_done_callback(lambda _: player.heal(before))

    _while_moving(player, first, die)


def _second_controller(player: Player, strike: Strike, n: int) -> None:
    """Another controller becomes primary while one moves keys."""
    before = player.answered()

    def supersede(_: Session, task: asyncio.Task[Any]) -> None:
        player.wanted = _another_set(player)

        def end(_: object) -> None:
            player.evidence[n] = task.done() and isinstance(task.exception(), NotPrimary)
            player.heal(before)

        player.begin(player.load_wanted()).add_done_callback(end)

    _while_moving(player, _another_set(player), supersede)


def _while_moving(
    player: Player, keys: list[int], what: Callable[[Session, asyncio.Task[Any]], None]
) -> None:
    """Do something while a controller loads a hot set, when a random part of what it has to write is written.

    Where it fails before, as the switch is off, or another becomes primary, one tries again.
    """
    session = player.session()
    moves = plan(player.bed.switch.params, player.bed.arm.job, keys, offload=True).summary()
    least = player.random.randrange(max(moves["inserts"] + moves["modifies"] + moves["deletes"], 2) // 2)
    fired: list[bool] = []

    def look() -> None:
        if session.written > least and not fired:
            fired.append(True)
            player.at(player.random.randrange(200_000), lambda: what(session, task))

    def ended(_: object) -> None:
        if not fired:
            player.at(MS, lambda: _while_moving(player, _another_set(player), what))

    session.on_write = look
    task = player.begin(player.load(session, keys))
    task.add_done_callback(ended)


def _hot_set_changes(player: Player, strike: Strike, n: int) -> None:
    """Another hot set is loaded while workers push."""
    before, player.wanted = player.answered(), _another_set(player)
    was = {(param.key, param.state) for param in player.bed.switch.params}

    def end(_: object) -> None:
        player.evidence[n] = was != {(param.key, param.state) for param in player.bed.switch.params}
        player.heal(before)

    player.begin(player.load_wanted()).add_done_callback(end)


def _disk_is_full(player: Player, strike: Strike, n: int) -> None:
    """A server can note nothing, so it answers nothing."""
    bed, before, lasts = player.bed, player.answered(), strike.lasts_us * 1_000
    agent = bed.world.agents[WORKERS + strike.who]
    agent.stalled = bed.now + lasts

    def end() -> None:
        player.evidence[n] = int(agent.waiting) > 0
        player.heal(before)

    # Looked at just before it goes on.
    player.at(lasts - 1, end)


def _another_set(player: Player) -> list[int]:
    """Of another size than that in the switch, so that there is something to move."""
    now = len(player.bed.switch.params)
    return player.random.sample(range(KEYS), player.random.choice([k for k in (4, 16, 40) if k != now]))


STRIKES: dict[str, StrikeKind] = {
    "delay": _on_cable,
    "link": _on_cable,
    "worker killed": _worker_dies,
    "worker restarted": _worker_dies,
    "server restarted": _server_restarts,
    "switch restarted": _switch_restarts,
    "controller killed": _controller_dies,
    "second controller": _second_controller,
    "hot set": _hot_set_changes,
    "disk full": _disk_is_full,
}
