"""A parameter server that restarts has the state that it had when it was killed, by its journal."""

from __future__ import annotations

import numpy as np
import pytest

import hotline_simulator.faults.testbed
from foundation.designs.registry import design
from hotline_agents.collect.state import COLLECTIONS
from hotline_agents.ps.journal import NOTE_BYTES, WAIT_ENDED
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.udp import BURST
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.matrix import cached_testbed
from hotline_simulator.faults.player import ScheduleOutcome
from hotline_simulator.faults.schedule import ARMS, ranges_of
from hotline_simulator.faults.servers import RestartableServer
from hotline_simulator.faults.testbed import SimulatedTestbed

GOES_ON_AFTER_A_WAIT = 452
"""A seed: a server that has waited for collections goes on with a move, and restarts later."""


class Differs(Exception):
    """The state after a restart is not the one before the kill."""


def durable_state(testbed: SimulatedTestbed, p: int) -> dict[str, np.ndarray]:
    state = testbed.servers[p].state
    names = [name for name in ("cells", "at_switch", "collected", "unsettled") if hasattr(state, name)]
    return {name: np.array(getattr(state, name)) for name in names}


def play(
    monkeypatch: pytest.MonkeyPatch, arm: str, fault: str, seed: int, testbed: SimulatedTestbed | None = None
) -> tuple[int, ScheduleOutcome]:
    """Play a schedule; return the number of restarts that left no trace. Raises `Differs`."""
    testbed, restarts = testbed or cached_testbed(arm), 0
    restart = SimulatedTestbed.restart_server

    def restart_and_compare(testbed: SimulatedTestbed, p: int) -> None:
        nonlocal restarts
        before = durable_state(testbed, p)
        restart(testbed, p)
        after = durable_state(testbed, p)
        for name, were in before.items():
            if were.tobytes() != after[name].tobytes():
                raise Differs(f"{arm}, {fault}, seed {seed}: {name} of ps-{p}")
        restarts += 1

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedTestbed, "restart_server", restart_and_compare)
        outcome = play_schedule(testbed, draw_faults(fault, arm, seed))
    return restarts, outcome


@pytest.mark.parametrize("arm", ["offload", "collect"])
def test_a_restarted_server_has_its_state(monkeypatch: pytest.MonkeyPatch, arm: str) -> None:
    played = [
        play(monkeypatch, arm, fault, seed)
        for fault in ("server restarted", "kills", "everything")
        for seed in range(12)
    ]
    assert all(outcome.holds for _, outcome in played)
    assert sum(restarts for restarts, _ in played) > 12


@pytest.mark.parametrize(("arm", "notes"), [("offload", BURST), ("collect", BURST + COLLECTIONS + 1)])
def test_a_server_whose_journal_is_full_goes_on_during_a_move(
    monkeypatch: pytest.MonkeyPatch, arm: str, notes: int
) -> None:
    """Its journal has room for one note more than the `notes` of a burst."""
    monkeypatch.setattr(hotline_simulator.faults.testbed, "_JOURNAL_BYTES", (notes + 1) * NOTE_BYTES)
    testbed, moves = SimulatedTestbed(ARMS[arm], ranges=ranges_of(design(ARMS[arm].design))), 0
    persist = RestartableServer.persist

    def persist_and_count(server: RestartableServer) -> None:
        nonlocal moves
        moves += not server.core.is_idle
        persist(server)

    monkeypatch.setattr(RestartableServer, "persist", persist_and_count)
    played = [
        play(monkeypatch, arm, fault, seed, testbed)
        for fault in ("hot set", "server restarted", "kills")
        for seed in range(4)
    ]
    assert all(outcome.holds for _, outcome in played)
    assert moves > 0 < sum(restarts for restarts, _ in played)


def test_the_journal_has_when_a_waiting_command_went_on(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts, outcome = play(monkeypatch, "collect", "everything", GOES_ON_AFTER_A_WAIT)
    assert restarts == 1 and outcome.holds
    # Without these notes a replay has keys at the server that are in the switch.
    really = RpcServer.note
    with monkeypatch.context() as patched:
        patched.setattr(
            RpcServer,
            "note",
            lambda server, source, datagram: source == WAIT_ENDED or really(server, source, datagram),
        )
        with pytest.raises(Differs):
            play(patched, "collect", "everything", GOES_ON_AFTER_A_WAIT)


def test_a_worker_without_further_operations_replays() -> None:
    # All workers have had their last operation when the switch of this schedule is killed for the third time.
    assert play_schedule(cached_testbed("collect"), draw_faults("kills", "collect", 4259)).holds
