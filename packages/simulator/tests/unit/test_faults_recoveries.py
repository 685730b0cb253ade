"""Each recovery is broken in one place, in the code that real processes run: schedules of faults find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from controller.controller import Controller
from experiment import switch_recovery
from experiment.liveness import Liveness
from hosts import replay
from hosts.in_flight import InFlight
from hosts.replay import ReplayLog, SwitchNumbers, UnackedUpdates, UnfinishedPart
from hosts.replay_words import acknowledged_sums
from hotline_agents.hotset.ps import checkpoint, parameter_server
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps.journal import FROM_CONTROLLER, FROM_SWITCH, FROM_WORKER, read_note
from hotline_agents.ps.rpc_server import RpcServer
from hotline_simulator.faults import cluster as virtual
from hotline_simulator.faults import player
from hotline_simulator.faults.cluster import RecoverableSwitch
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.matrix import cached_testbed
from tests.harness.faults import fails_soon

Break = Callable[[pytest.MonkeyPatch], None]


async def nothing(*_: Any) -> None:
    pass


def forget_notes_of_workers(patched: pytest.MonkeyPatch) -> None:
    def replay_journal(server: RpcServer, notes: Any, at: int) -> tuple[int, int]:
        while at < len(notes):
            source, _, behind = read_note(notes, at)
            if source != FROM_WORKER:
                break
            at = behind
        return at, 0

    patched.setattr(RpcServer, "replay_journal", replay_journal)


def forget_notes_of(source: int) -> Break:
    def read(notes: Any, at: int) -> tuple[int, bytes, int]:
        by, datagram, behind = read_note(notes, at)
        return by, b"" if by == source else datagram, behind

    return lambda patched: patched.setattr(parameter_server, "read_note", read)


def server_forgets(name: str) -> Break:
    def put_back(server: Any, movers: Any, parts: Any, arrays: Any) -> None:
        some = {key: b"" if key.startswith(name) else part for key, part in parts.items()}
        really(server, movers, some, arrays)

    really = checkpoint.restore_checkpoint
    return lambda patched: patched.setattr(parameter_server, "restore_checkpoint", put_back)


def server_forgets_its_checkpoint(patched: pytest.MonkeyPatch) -> None:
    really = ParameterServer.recover
    patched.setattr(ParameterServer, "recover", lambda ps, parts, journal: really(ps, {}, journal))


def server_has_no_books(patched: pytest.MonkeyPatch) -> None:
    def restore(store: HotsetStore) -> None:
        store._at_switch[:] = 0
        really(store)

    really = HotsetStore.restore
    patched.setattr(HotsetStore, "restore", restore)


def servers_are_not_renewed(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Controller, "renew", nothing)


def workers_are_not_told(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(RecoverableSwitch, "renew_workers", nothing)


def callers_keep_their_epoch(patched: pytest.MonkeyPatch) -> None:
    """Rows and servers have the last epoch, and workers another one."""
    restore = switch_recovery.restore
    patched.setattr(switch_recovery, "restore", lambda cluster, epoch: restore(cluster, epoch - 1))


def a_death_in_a_restore_goes_unnoticed(patched: pytest.MonkeyPatch) -> None:
    async def comes_back(cluster: switch_recovery.RecoverableCluster) -> bool:
        cluster.liveness.mark_down("s1")
        await switch_recovery._restore_with_retries(cluster, await cluster.start_switch())
        return True

    patched.setattr(switch_recovery, "_start_and_restore", comes_back)


def what_fails_is_not_tried_again(patched: pytest.MonkeyPatch) -> None:
    async def has_new_death(liveness: Liveness, deaths: int) -> bool:
        return False

    patched.setattr(Liveness, "has_new_death", has_new_death)
    patched.setattr(Liveness, "others_down", lambda liveness, name: False)
    patched.setattr(switch_recovery, "NotPrimary", ())
    patched.setattr(switch_recovery, "_MAX_UNEXPLAINED_FAILURES", 1)


def worker_forgets_what_was_held(patched: pytest.MonkeyPatch) -> None:
    def renew(client: HotsetClient, epoch: int, home: int) -> None:
        acknowledged_sums(client.state.replay_log)[:] = 0
        really(client, epoch, home)

    really = HotsetClient.renew
    patched.setattr(HotsetClient, "renew", renew)


def worker_is_told_twice(patched: pytest.MonkeyPatch) -> None:
    """Renew a worker twice: it does not know the switch yet at the second time."""

    def renew(client: HotsetClient, log: ReplayLog, epoch: int, switch: int, home: int) -> None:
        client.renew(epoch, home)
        log.set_switch(switch, home)

    patched.setattr(virtual, "renew", renew)


def worker_comes_back_and_forgets(patched: pytest.MonkeyPatch) -> None:
    """Restart a worker that loses what a vanished switch held."""

    def owed(log: ReplayLog, switches: SwitchNumbers) -> UnackedUpdates:
        return really(log, log.switch_numbers)

    really = ReplayLog.unacked
    patched.setattr(ReplayLog, "unacked", owed)


def log_does_not_say_whose_it_is(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(ReplayLog, "set_switch", lambda log, switch, home: None)


def successor_logs_nothing(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(ReplayLog, "acknowledge", lambda log, place, deltas: None)


def successor_takes_all_requests_for_unsent(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(InFlight, "requests", lambda sent: {})


def rows_of_a_replay_are_forgotten(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(UnfinishedPart, "return_unanswered", lambda part: None)


@pytest.fixture
def soon_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give schedules up after 12 s of virtual time: whole recoveries come to rest within half of that."""
    for name in ("_TIMEOUT_NS", "_MAX_CLOSING_NS"):
        monkeypatch.setattr(player, name, 12_000 * player.MS)


@pytest.mark.no_cover
@pytest.mark.usefixtures("soon_stuck")
@pytest.mark.parametrize(
    ("breaks", "fault", "first_seed"),
    [
        pytest.param(forget_notes_of_workers, "server restarted", 0, id="server-workers"),
        pytest.param(forget_notes_of(FROM_CONTROLLER), "everything", 60, id="server-controller"),
        # Schedules that never come to rest take their time.
        pytest.param(
            forget_notes_of(FROM_SWITCH), "everything", 0, id="server-switch", marks=pytest.mark.soak
        ),
        pytest.param(server_forgets_its_checkpoint, "server restarted", 0, id="server-checkpoint"),
        pytest.param(server_forgets("cells"), "server restarted", 0, id="server-cells"),
        pytest.param(server_forgets("callers"), "everything", 10, id="server-callers"),
        pytest.param(server_forgets("at_switch"), "kills", 0, id="server-lent"),
        (server_has_no_books, "kills", 0),
        (servers_are_not_renewed, "everything", 20),
        (workers_are_not_told, "switch restarted", 0),
        (callers_keep_their_epoch, "switch restarted", 0),
        (a_death_in_a_restore_goes_unnoticed, "kills", 0),
        (what_fails_is_not_tried_again, "everything", 20),
        (worker_forgets_what_was_held, "switch restarted", 0),
        (worker_is_told_twice, "everything", 30),
        (worker_comes_back_and_forgets, "kills", 0),
        (log_does_not_say_whose_it_is, "kills", 0),
        (successor_logs_nothing, "workers", 0),
        (successor_takes_all_requests_for_unsent, "worker restarted", 0),
        (rows_of_a_replay_are_forgotten, "workers", 0),
    ],
)
def test_a_broken_recovery_is_found(
    breaks: Break, fault: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search begins a few schedules before one that finds it: those before hold, and take longer.

    The same schedule holds where nothing is broken, so that neither the fault nor the time given finds it.
    """
    testbed = cached_testbed("offload-proxy")
    with monkeypatch.context() as broken:
        breaks(broken)
        schedule, outcome = fails_soon(testbed, fault, first_seed)
    assert not outcome.holds
    assert play_schedule(testbed, schedule).holds


def test_the_simulator_runs_the_recovery_code_of_real_processes() -> None:
    """The simulator has no recovery code of its own."""
    assert vars(virtual)["renew"] is replay.renew
    assert isinstance(cached_testbed("offload-proxy").servers[0].core, ParameterServer)
    assert np.shares_memory(
        cached_testbed("offload-proxy").servers[0].core.server.state.cells,
        cached_testbed("offload-proxy").world.servers.cells,
    )
