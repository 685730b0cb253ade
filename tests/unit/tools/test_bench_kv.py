"""The section `kv` of the bench: the timed steps are done, and its lines have units and ratios."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from hosts.sockets import open_udp
from switch_bench.report import as_tables
from tools.bench.results import BUILT_IN, LIBRARY
from tools.bench.scripts import HOST, SERVER, StepTimes, script
from tools.bench.sections.kv import results_of
from tools.bench.stepper import stepping

CORE = min(os.sched_getaffinity(0))


def test_a_script_and_the_built_in_worker_push_their_steps_to_one_server(tmp_path: Path) -> None:
    """Ten steps of 100 keys; both workers push to the same PS."""
    with script(1000, 1, 100, CORE) as scripts, closing(open_udp((HOST, 20_000))) as sock:
        times = scripts.run(10)
        assert 0 < times.script_cpu < times.wall and times.library_cpu > 0
        assert times.cpu == times.script_cpu + times.library_cpu
        pushed = scripts._kv.read()
        with stepping(sock, SERVER, 1000, 100, tmp_path) as stepper:
            stepper.run(1)
        both = scripts._kv.read()
    assert (pushed != 0).any(1).sum() > 50
    assert (both != pushed).sum() == 100  # a unit each


def test_a_script_of_the_bench_pushes_rows() -> None:
    with script(1000, 16, 50, CORE) as scripts:
        scripts.run(3)
        pushed = scripts._kv.read()
    assert pushed.shape == (62, 16) and pushed.any(1).sum() >= 50 and (pushed != 0).any(0).all()


def test_lines_of_results_compare_the_script_with_the_built_in_worker() -> None:
    took = {
        LIBRARY: [StepTimes(2000, 100, 1600), StepTimes(3000, 300, 1500), StepTimes(1000, 200, 1700)],
        BUILT_IN: [StepTimes(1000, 1000, 0), StepTimes(2000, 2000, 0), StepTimes(2000, 1900, 0)],
    }
    lines = list(results_of(took))
    assert [(line.unit, line.value(LIBRARY), line.value(BUILT_IN)) for line in lines] == [
        ("µs", 2000, 2000),
        ("µs", 1800, 1900),
        ("µs", 200, None),
        ("µs", 1600, None),
        ("values/s", 1_500_000, None),
    ]
    assert [line.ratio(BUILT_IN) for line in lines[:2]] == [1.5, 1.0]
    assert [line.is_met(goal) for line in lines for goal in line.goals] == [False, True]
    assert len(list(as_tables(lines))) == 1
