"""Agents of Scapy and compiled ones, mixed, lose and double no update: 11 schedules here, 2,000 in soak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from scapy.packet import Packet

from foundation.designs.registry import design
from hosts.scapy.packets import Hotline
from hosts.scapy.server import ScapyServer, ScapyStore
from hosts.scapy.worker import ScapyWorker
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import KINDS, faults_of, play_schedule
from hotline_simulator.faults.mixed import MixedTestbed
from hotline_simulator.faults.schedule import ARMS, SERVERS, WORKERS, ranges_of
from tests.harness.faults import some_and_many

ARM_NAMES = ("offload", "offload-proxy", "none")
ROWS = [
    # In `make test` one arm has to do.
    pytest.param(arm, fault, marks=[] if arm == "offload-proxy" else pytest.mark.soak)
    for arm in ARM_NAMES
    for fault in faults_of(arm, is_mixed=True)
]
SCHEDULES, SOAKED = len(ROWS), 2_000


@cache
def mixed_testbed(arm: str) -> MixedTestbed:
    return MixedTestbed(ARMS[arm], ranges=ranges_of(design(ARMS[arm].design)))


@pytest.mark.no_cover
@pytest.mark.parametrize(("arm", "fault"), ROWS)
@some_and_many(SCHEDULES, SOAKED, rows=len(ROWS))
def test_mixed_agents_lose_nothing(arm: str, fault: str, first: int, schedules: int) -> None:
    for seed in range(first, first + schedules):
        outcome = play_schedule(mixed_testbed(arm), draw_faults(fault, arm, seed, is_mixed=True))
        assert outcome.holds, (seed, outcome)
        assert outcome.rpcs >= 200 and outcome.judgement.sent > 0


def test_both_kinds_of_agents_take_part() -> None:
    """Each worker completes operations, and each server adds updates of workers of both kinds."""
    testbed = mixed_testbed("offload-proxy")
    assert set(testbed.external_workers) == {0, 2} and WORKERS == 3 and SERVERS == 2
    assert play_schedule(testbed, draw_faults("duplication", "offload-proxy", 1, is_mixed=True)).holds
    assert min(testbed.operations.progress.completed) > 3
    [scapy_server] = [host for host in testbed.server_hosts if host not in testbed.servers]
    assert scapy_server.p == 0
    for host in testbed.server_hosts:
        keys, sums = host.sums()
        assert len(keys) > 20 and sums.any()


def test_agents_of_scapy_get_only_faults_that_agents_of_scapy_survive() -> None:
    survived = {arm: set(faults_of(arm, is_mixed=True)) for arm in ARM_NAMES}
    of_compiled = {name for name, kind in KINDS.items() if kind.needs in ("durability", "successors")}
    for arm in ARM_NAMES:
        assert survived[arm] == set(faults_of(arm)) - of_compiled - {"kills", "workers"}
    drawn = Counter(
        injection.kind
        for seed in range(200)
        for injection in draw_faults("everything", "offload", seed, is_mixed=True).injections
    )
    assert set(drawn) == survived["offload"] & set(KINDS) - {"worker killed"}


def _push_every_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = ScapyServer._serve

    def serve_as_new(self: ScapyServer, packet: Packet) -> list[Packet]:
        rpc = packet[Hotline]
        if (slots := self._find_slots(rpc, rpc.epoch)) is not None:
            slots.turns[rpc.seq % 64] = 0
        return serve(self, packet)

    monkeypatch.setattr(ScapyServer, "_serve", serve_as_new)


def _own_keys_in_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScapyStore, "is_owned", ScapyStore.is_in_share)


def _take_refused_lanes_for_added(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ScapyWorker._apply

    def apply_all(self: ScapyWorker, call: object, answer: Packet, now: int) -> None:
        if answer.values is None:
            answer.refused = 0
        apply(self, call, answer, now)  # type: ignore[arg-type]  # the call, which is passed on

    monkeypatch.setattr(ScapyWorker, "_apply", apply_all)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("fault", "break_rule"),
    [
        ("duplication", _push_every_copy),
        ("hot set", _own_keys_in_the_switch),
        ("hot set", _take_refused_lanes_for_added),
    ],
)
def test_the_schedules_notice_an_agent_that_breaks_a_rule(
    monkeypatch: pytest.MonkeyPatch, fault: str, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    break_rule(monkeypatch)
    testbed = mixed_testbed("offload-proxy")
    outcomes = (
        play_schedule(testbed, draw_faults(fault, "offload-proxy", seed, is_mixed=True)) for seed in range(10)
    )
    assert any(not outcome.holds for outcome in outcomes)
