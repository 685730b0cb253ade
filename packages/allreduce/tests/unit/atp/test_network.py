"""ATP in a network of leaves and spines: rows, packets on the way, and random schedules against the model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.tables import GroupRow
from experiment.errors import ConfigError
from experiment.run_config import Config, config_of
from foundation.designs.interface import SwitchHosts
from foundation.protocol.leaf_spine import LeafSpine
from hotline_allreduce.atp.control import CONTROL, AckGroup, AtpLevel, AtpPassage
from hotline_allreduce.atp.design import DESIGN
from hotline_allreduce.atp.packet import SERVER_SHIFT, VALUES, AtpPacket
from packages.allreduce.tests.harness.atp import arm_with
from packages.allreduce.tests.harness.atp_network import JOB, AtpNetwork, ComparedNetwork, compared
from switch_harness.effort import examples
from switch_harness.wording import mentions
from tests.harness.programs import Edit, edited

NETWORK = LeafSpine(workers=5, servers=2, leaves=3, spines=2)
"""Workers 1 and 4 and server 0 are at leaf 1, workers 2 and 5 and server 1 at leaf 2, worker 3 at leaf 3."""
SPINES, LEAF_1, LEAF_2, LEAF_3 = (0, 1), 2, 3, 4
REPEATED, PASSED = 2, 6  # of the outcomes of packets


def rows_of(switch: int) -> list[object]:
    assert CONTROL.network_rows is not None
    rows = CONTROL.rows(SwitchHosts(NETWORK.workers, NETWORK.servers), [arm_with(job=JOB)], 0)
    return [*CONTROL.network_rows(rows, NETWORK, switch)]


def test_the_leaf_of_a_server_counts_its_workers_and_other_leaves_and_leaves_count_their_workers() -> None:
    levels = {
        switch: [row for row in rows_of(switch) if isinstance(row, AtpLevel | AtpPassage)]
        for switch in NETWORK.switches
    }
    assert levels[LEAF_1] == [AtpLevel(JOB, 0, 4, True), AtpLevel(JOB, 1, 2, False)]
    assert levels[LEAF_2] == [AtpLevel(JOB, 0, 2, False), AtpLevel(JOB, 1, 4, True)]
    for switch in (*SPINES, LEAF_3):
        assert levels[switch] == [AtpPassage(JOB, 0), AtpPassage(JOB, 1)]


def test_acknowledgements_go_to_the_workers_of_the_root_and_by_leaves_to_their_workers() -> None:
    server_1, up_1, up_2 = 6, NETWORK.uplink(0), NETWORK.uplink(1)
    rows = rows_of(LEAF_1)
    [of_root, of_leaf] = [row for row in rows if isinstance(row, GroupRow)]
    assert {(row.ingress_port, row.group) for row in rows if isinstance(row, AckGroup)} == {
        (server_1, of_root.group), (up_1, of_leaf.group), (up_2, of_leaf.group),
    }  # fmt: skip
    # Worker 2 stands for leaf 2, and worker 3 for leaf 3.
    assert of_root.replicas == ((1, 1), (4, 4), (up_2, 2), (up_1, 3))
    assert of_leaf.replicas == ((1, 1), (4, 4))
    assert not [row for switch in SPINES for row in rows_of(switch) if isinstance(row, GroupRow | AckGroup)]


def outcomes_of_a_cell(ps: int) -> dict[int, list[int]]:
    """Send a packet of each worker and its acknowledgements; return the counts of outcomes by switch."""
    programs, received = AtpNetwork(NETWORK, ps, check=False), Counter[int]()
    for worker in range(NETWORK.workers):
        flags = ps << SERVER_SHIFT
        packet = AtpPacket(1 << worker, 5, JOB, 1, 0, (10**worker,) * VALUES, 1, VALUES, flags)
        under_way = programs.send(worker, packet)
        while under_way:
            leaf, number, frame = under_way.pop()
            if leaf is None:
                received[number] += 1
            else:
                under_way += programs.process(leaf, number, frame)
    assert received == dict.fromkeys(range(NETWORK.workers), 1)
    assert not any(programs.cells(switch, "claim.owners", 1)[0] for switch in NETWORK.switches)
    return {switch: programs.outcomes(switch) for switch in NETWORK.switches}


@pytest.mark.parametrize(("ps", "root", "leaf"), [(0, LEAF_1, LEAF_2), (1, LEAF_2, LEAF_1)])
def test_a_leaf_sends_one_packet_of_a_cell_and_the_server_gets_one(ps: int, root: int, leaf: int) -> None:
    outcomes = outcomes_of_a_cell(ps)
    # The root has four children: its two workers, and two leaves.
    assert outcomes[root] == [3, 1, 0, 0, 0, 0, 0, 1]
    assert outcomes[leaf] == [1, 1, 0, 0, 0, 0, 0, 1]
    # What spines and the leaf of one worker pass on: the packets of two leaves, and acknowledgements to them.
    assert outcomes[LEAF_3] == [0, 0, 0, 0, 0, 0, 2, 0]
    assert sum(outcomes[spine][PASSED] for spine in SPINES) == 4


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    workers=st.integers(2, 8),
    servers=st.integers(1, 4),
    leaves=st.integers(2, 3),
    spines=st.integers(1, 2),
)
def test_program_and_model_of_two_levels_send_equal_packets(
    seed: int, workers: int, servers: int, leaves: int, spines: int
) -> None:
    """Frames are lost, doubled and reordered, and a switch may lose its state."""
    compared(LeafSpine(workers, servers, max(2, min(leaves, workers)), spines=spines), seed, 300)


def outcomes(played: ComparedNetwork) -> tuple[list[int], list[int]]:
    """Return the numbers of the root's outcomes, and those of leaves."""
    [root, *leaves] = [played.programs.outcomes(number) for number, _ in played.nodes()]
    return root, [sum(counts) for counts in zip(*leaves, strict=True)]


def test_schedules_meet_all_outcomes_at_both_levels() -> None:
    met = [outcomes(compared(NETWORK, seed, 300)) for seed in range(20)]
    for level in zip(*met, strict=True):
        totals = [sum(counts) for counts in zip(*level, strict=True)]
        # The root's server answers a sum at once, so no repeated packet finds the sum there.
        assert all(total > 10 for outcome, total in enumerate(totals) if outcome != REPEATED), totals


BROKEN = {
    "a level counts all workers": Edit("atp/count.p4", "count == meta.children", "count == hdr.atp.workers"),
    "a collided packet claims a cell of the root": Edit(
        "atp/identify.p4", "                meta.passes_on = true;\n", ""
    ),
    "a packet that is passed on claims a cell": Edit("atp/ingress.p4", "!meta.passes_on && ", ""),
    "an acknowledgement is not passed on": Edit(
        "atp/next_step.p4", "if (meta.passes_on)", "if (meta.passes_on && hdr.atp.is_ack == 0)"
    ),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_program_differs_from_the_model_at_two_levels(edit: Edit) -> None:
    description = edited(DESIGN, edit)
    with pytest.raises(AssertionError):
        for seed in range(10):
            compared(NETWORK, seed, 300, description)


@pytest.mark.parametrize("arms", [("atp",), ("atp", "atp-checked")])
def test_both_arms_run_on_leaves_and_spines(arms: tuple[str, ...]) -> None:
    config = config_of(Config, {"topology": "leaf-spine", "design": "atp", "arms": arms, "spines": 2})
    assert config.leaf_spine == LeafSpine(4, 2, 2, "spine", 2)


@pytest.mark.parametrize("place", ["leaves", "worker-leaves"])
def test_places_of_hot_sets_are_refused(place: str) -> None:
    with pytest.raises(ConfigError, match=mentions(f'hot_sets "{place}"', "design atp", '"spine"')):
        config_of(Config, {"topology": "leaf-spine", "design": "atp", "hot_sets": place})
