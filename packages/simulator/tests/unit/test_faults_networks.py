"""Schedules of faults on networks of leaves and a spine, each switch of which may be lost by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from controller.network_controller import NetworkController
from controller.network_rows import bundle_rows
from foundation.protocol.codec import Values
from hosts import replay
from hosts.replay import ReplayLog
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps.share import Places
from hotline_simulator.faults import cluster as virtual
from hotline_simulator.faults import player
from hotline_simulator.faults.cluster import RecoverableSwitch
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import FAULTS, check_names, play_schedule
from hotline_simulator.faults.matrix import Tally, cached_testbed, play_seeds, rows_of
from hotline_simulator.faults.schedule import LEAVES, NETWORK_ARMS, SPRAYED_ARMS, FaultSchedule, network_of
from switch_harness.wording import mentions
from tests.harness.faults import fails_soon, some_and_many

ALL_ARMS = (*NETWORK_ARMS, *SPRAYED_ARMS)
ROWS = rows_of(ALL_ARMS)
SCHEDULES, SOAKED = len(ROWS), 100_000


@pytest.mark.no_cover
@pytest.mark.parametrize(("fault", "arm"), ROWS)
@some_and_many(4 * SCHEDULES, SOAKED, rows=len(ROWS))
def test_no_fault_in_a_network_loses_doubles_or_tears_an_update(
    fault: str, arm: str, first: int, schedules: int
) -> None:
    tally = Tally.model_validate_json(play_seeds(fault, arm, first, schedules))
    assert tally.failures == () and tally.holds
    assert tally.happened == tally.schedules == schedules and tally.sent >= schedules


def test_an_arm_of_a_network_gets_all_faults_its_placement_survives() -> None:
    injected = {arm: {fault for fault, of in ROWS if of == arm} for arm in ALL_ARMS}
    of_one_window = {"worker restarted", "workers"}
    for arm, faults in injected.items():
        assert faults == set(FAULTS) - (of_one_window if arm.endswith(("@leaves", "@both")) else set())


@pytest.mark.parametrize(("arm", "spines"), [("offload@leaves", 1), ("collect@worker-leaves-sprayed", 2)])
def test_each_switch_and_each_direction_of_an_uplink_is_a_target(arm: str, spines: int) -> None:
    drawn: dict[str, set[int]] = {}
    for fault in ("switch restarted", "uplink", "kills"):
        for seed in range(60):
            for injection in draw_faults(fault, arm, seed).injections:
                drawn.setdefault(injection.kind, set()).add(injection.target)
    assert drawn["switch restarted"] == set(range(spines + LEAVES))
    assert drawn["uplink"] == set(range(2 * spines * LEAVES))


@pytest.mark.parametrize(
    ("arm", "target"),
    [
        *(("offload@leaves", target) for target in range(2 * LEAVES)),
        *(("collect@worker-leaves-sprayed", target) for target in range(4 * LEAVES)),
    ],
)
def test_an_uplink_is_down_in_one_direction(arm: str, target: int) -> None:
    testbed, schedule = cached_testbed(arm), draw_faults("uplink", arm, 1)
    injection = replace(schedule.injections[0], target=target, duration_us=30_000)
    assert play_schedule(testbed, replace(schedule, injections=(injection,))).holds
    world = testbed.world
    lost = [*world.racks_up.lost.tolist(), *world.racks_down.lost.tolist()]
    assert [number for number, count in enumerate(lost) if count] == [target]
    assert not world.up.lost.any() and not world.down.lost.any()


def test_a_target_outside_of_the_network_is_refused() -> None:
    schedule = draw_faults("switch restarted", "offload@leaves", 1)
    text = schedule.to_json().replace('"target": ', '"target": 3')
    with pytest.raises(ValueError, match=mentions("injections.0.target", "0 to 2")):
        check_names(FaultSchedule.from_json(text))


def test_frames_of_a_sprayed_arm_take_all_uplinks_in_turn() -> None:
    testbed = cached_testbed("collect@worker-leaves-sprayed")
    assert play_schedule(testbed, draw_faults("duplication", "collect@worker-leaves-sprayed", 1)).holds
    for frames in (testbed.world.racks_up.frames.reshape(LEAVES, -1), testbed.world.racks_down.frames):
        assert frames.min() > 0
    per_leaf = testbed.world.racks_up.frames.reshape(LEAVES, -1)
    assert (per_leaf.max(axis=1) - per_leaf.min(axis=1) <= 1).all()


def test_a_restarted_leaf_gets_its_bundle_again() -> None:
    arm = "collect@worker-leaves-sprayed"
    testbed, network = cached_testbed(arm), network_of(arm)
    assert network is not None
    schedules = (draw_faults("switch restarted", arm, seed) for seed in range(100))
    leaf = network.leaf_switches[-1]
    schedule = next(each for each in schedules if each.injections[0].target == leaf)
    assert play_schedule(testbed, schedule).holds and testbed.switches[leaf].restarts == 1
    assert set(bundle_rows(network, leaf)) <= set(testbed.switches[leaf].rows.values())


@pytest.mark.parametrize("arm", ALL_ARMS)
def test_only_a_restart_of_a_home_makes_workers_replay(arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, testbed, renewed = network_of(arm), cached_testbed(arm), set[tuple[int, int]]()
    assert network is not None

    def note(client: HotsetClient, log: ReplayLog, epoch: int, switch: int, home: int) -> None:
        worker = int(client.state.header.worker)
        renewed.add((worker, network.homes_of_worker(worker)[home]))
        replay.renew(client, log, epoch, switch, home)

    monkeypatch.setattr(virtual, "renew", note)
    for seed in range(30):
        schedule = draw_faults("switch restarted", arm, seed)
        renewed.clear()
        assert play_schedule(testbed, schedule).holds
        lost = schedule.injections[0].target
        workers = range(1, 1 + network.workers)
        assert renewed == {(w, lost) for w in workers if lost in network.homes_of_worker(w)}


def forget_the_home_of_a_renewal(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(
        virtual, "renew", lambda client, log, epoch, switch, _: replay.renew(client, log, epoch, switch)
    )


def replay_what_all_homes_had(patched: pytest.MonkeyPatch) -> None:
    def renew(client: HotsetClient, log: ReplayLog, epoch: int, switch: int, home: int) -> None:
        replay.renew(client, log, epoch, switch, home)
        log.restore(tuple(-1 for _ in log.switch_numbers))
        log.set_switch(switch, home)

    patched.setattr(virtual, "renew", renew)


def load_all_keys_at_each_home(patched: pytest.MonkeyPatch) -> None:
    async def hot_sets(switch: RecoverableSwitch) -> dict[int, list[int]]:
        return {job: switch._player.wanted_keys for job in switch.jobs}

    patched.setattr(RecoverableSwitch, "hot_sets", hot_sets)


def leave_a_transit_switch_empty(patched: pytest.MonkeyPatch) -> None:
    rows = RecoverableSwitch.rows
    patched.setattr(
        RecoverableSwitch, "rows", lambda switch, epoch: rows(switch, epoch) if switch.is_home else []
    )


RESTORE = HotsetStore.restore


def take_back_the_rows_of_both_homes(patched: pytest.MonkeyPatch) -> None:
    def restore(store: HotsetStore) -> None:
        for each in store.by_home:
            RESTORE(each)

    patched.setattr(HotsetStore, "restore", restore)


def seed_before_the_former_home_has_given_rows_back(patched: pytest.MonkeyPatch) -> None:
    async def leave(*_arguments: object) -> None: ...

    patched.setattr(NetworkController, "_unload_leaving", leave)
    patched.setattr(HotsetStore, "is_at_another_home", lambda store, places: np.zeros(len(places), np.bool_))


@pytest.fixture
def soon_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_TIMEOUT_NS", 12_000 * player.MS)


@pytest.mark.no_cover
@pytest.mark.usefixtures("soon_stuck")
@pytest.mark.parametrize(
    ("arm", "fault", "breaks"),
    [
        ("offload@leaves", "switch restarted", forget_the_home_of_a_renewal),
        ("offload@leaves", "switch restarted", replay_what_all_homes_had),
        ("offload@leaves", "switch restarted", load_all_keys_at_each_home),
        ("offload@leaves", "switch restarted", leave_a_transit_switch_empty),
        ("offload@both", "kills", take_back_the_rows_of_both_homes),
        ("offload@both", "hot set", seed_before_the_former_home_has_given_rows_back),
    ],
)
def test_a_broken_recovery_or_move_in_a_network_is_found(
    arm: str, fault: str, breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed = cached_testbed(arm)
    with monkeypatch.context() as broken:
        breaks(broken)
        schedule, _ = fails_soon(testbed, fault, arm=arm)
    assert play_schedule(testbed, schedule).holds


@pytest.mark.parametrize("fault", ["hot set", "controller killed", "second controller"])
def test_rows_move_between_levels_in_schedules(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed, moved = cached_testbed("offload@both"), Counter[int]()
    release, reclaim, left = HotsetStore.release, HotsetStore.reclaim, dict[int, int]()

    def note_release(store: HotsetStore, places: Places) -> Values:
        for place in places.tolist():
            moved[store._home] += left.get(place, store._home) != store._home
        return release(store, places)

    def note_reclaim(store: HotsetStore, places: Places, values: Values) -> None:
        left.update(dict.fromkeys(places.tolist(), store._home))
        reclaim(store, places, values)

    monkeypatch.setattr(HotsetStore, "release", note_release)
    monkeypatch.setattr(HotsetStore, "reclaim", note_reclaim)
    for seed in range(5):
        left.clear()
        assert play_schedule(testbed, draw_faults(fault, "offload@both", seed)).holds
    assert moved[0] and moved[1]


@pytest.mark.parametrize("arm", ["offload@leaves", "collect@worker-leaves"])
def test_a_load_moves_each_key_at_its_home(arm: str) -> None:
    testbed = cached_testbed(arm)
    assert play_schedule(testbed, draw_faults("hot set", arm, 3)).holds
    assert testbed.topology is not None and len(testbed.entries) > 2
    for number, switch in enumerate(testbed.switches):
        keys = [entry.key for entry in switch.entries]
        assert testbed.topology.keys_by_home(keys).get(number, []) == keys
        assert bool(keys) == (number in testbed.homes)
