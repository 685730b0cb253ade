"""Waits for a CPU that the other agents on it explain, and those that other programs must have caused."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.disturbance import cost_sources
from analysis.record import ANY, Block, ProgramUse, ServerUse
from analysis.unexplained_waits import unexplained_share
from tests.harness.records import a_record
from tests.unit.analysis.synthetic import block

APART = {"workers": 1, "servers": 0, "switch": ANY}
FOUR_CPUS = {"workers": [2, 3], "servers": [1], "switch": 0}


def a_waiting_block(workers: tuple[float, ...], servers: tuple[float, ...], **changes: Any) -> Block:
    """Return a block of 500 ms with these waits in ms; workers use 200 ms of CPU, and servers 100 ms."""
    waits = {
        **{f"worker-{number}": ms for number, ms in enumerate(workers, 1)},
        **{f"ps-{number}": ms for number, ms in enumerate(servers)},
    }
    of: dict[str, Any] = {
        "run_queue_ms": waits,
        "worker_cpu_s": 0.2,
        "servers": ServerUse(cpu_s=0.1),
        "program_s": ProgramUse(workers=0.02, servers=0.01, apart=0.03),
    }
    return block(0, 0.5, "offload").model_copy(update={"duration_ms": 500.0, **of, **changes})


@pytest.mark.parametrize(
    ("workers", "servers", "placement", "share"),
    [
        # Four workers on a CPU: one waits for the 150 ms of the other three, and a tenth of the block more.
        ((0, 0, 0, 200), (0, 0), APART, 0),
        ((0, 0, 0, 201), (0, 0), APART, 51 / (51 + 50)),
        # Of two servers one waits for the 50 ms of the other; a lone one has nobody to wait for.
        ((0, 0, 0, 0), (100, 0), APART, 0),
        ((0, 0, 0, 0), (101, 0), APART, 51 / (51 + 50)),
        ((0, 0, 0, 0), (51,), APART, 51 / (51 + 100)),
        ((0, 0, 0, 0), (50,), APART, 0),
        # The larger share of both kinds.
        ((0, 0, 0, 300), (130,), APART, 150 / (150 + 50)),
        # Two of four workers are on each CPU, and wait for the 50 ms of the other; two of two for nobody.
        ((0, 0, 101, 0), (0,), FOUR_CPUS, 51 / (51 + 50)),
        ((0, 51), (0,), FOUR_CPUS, 51 / (51 + 100)),
        # On any CPU, or on the same one, six agents of 50 ms wait for five others, and 30 ms for the program.
        ((0, 0, 0, 330), (330, 0), {"workers": ANY, "servers": ANY}, 0),
        ((0, 0, 0, 331), (0, 0), {"workers": ANY, "servers": ANY}, 51 / (51 + 50)),
        ((0, 0, 0, 0), (331, 0), {}, 51 / (51 + 50)),
        ((0, 0, 0, 331), (0, 0), {"workers": 1, "servers": 1}, 51 / (51 + 50)),
        ((), (), APART, 0),
    ],
)
def test_waits_are_explained_by_the_other_agents_on_the_cpu(
    workers: tuple[float, ...], servers: tuple[float, ...], placement: dict[str, Any], share: float
) -> None:
    assert unexplained_share([a_waiting_block(workers, servers)], placement) == pytest.approx(share)


def test_the_program_of_the_switch_explains_waits_on_the_same_cpus() -> None:
    program = ProgramUse(workers=0.02, servers=0.01, on_workers=0.02, on_servers=0.04)
    for workers, servers, share in [
        ((0, 0, 0, 221), (0,), 51 / (51 + 50)),
        ((0,), (91,), 51 / (51 + 100)),
        ((220, 220, 220, 220), (90,), 0),
    ]:
        waiting = a_waiting_block(workers, servers, program_s=program)
        assert unexplained_share([waiting], APART) == pytest.approx(share)


@pytest.mark.parametrize("taken", [0.2, 0.5, 0.75])
def test_the_share_of_other_processes_is_found(taken: float) -> None:
    """A lone server that others leave 100 ms of its CPU would have got more, but for their share."""
    waited_ms = 100 * taken / (1 - taken)
    found = unexplained_share([a_waiting_block((0,), (waited_ms,))], APART)
    assert found == pytest.approx(taken if waited_ms > 50 else 0)


@pytest.mark.parametrize("changes", [{"program_s": None}, {"period_ns": 0}])
def test_nothing_is_said_where_other_processes_of_the_run_use_cpus(changes: dict[str, Any]) -> None:
    assert unexplained_share([a_waiting_block((500,), (500,), **changes)], APART) == 0


def test_a_share_is_the_mean_of_blocks() -> None:
    blocks = [a_waiting_block((0,), (100,)), a_waiting_block((0,), (0,))]
    assert unexplained_share(blocks, APART) == pytest.approx(0.25)
    assert unexplained_share([], APART) == 0


def test_time_of_other_programs_is_known_by_cpu_time_or_by_waits() -> None:
    """The larger of the two: programs that make agents wait may be among those that /proc shows."""
    blocks = [
        a_waiting_block((0,), (100,), arm=arm, load=load, others_cpu_ms=ms)
        for arm, load, ms in [("baseline", 0.5, 0.0), ("offload", 0.5, 0.0), ("offload", 0.8, 600.0)]
    ]
    record = a_record(blocks=blocks, machine={"cpus": 2}, placement=APART)
    taken = [source.taken for source in cost_sources(record, ["baseline", "offload"])]
    assert taken == pytest.approx([0.5, 0.6])
