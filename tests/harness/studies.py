"""Studies whose points have fake results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from foundation.settings import Strict
from hotline_simulator import study
from hotline_simulator.study import StudyPoint


def fake_runs(monkeypatch: pytest.MonkeyPatch, result_of: Callable[[StudyPoint], Strict]) -> list[StudyPoint]:
    """Replace the simulation of points by `result_of`; return a list to which each point is appended."""
    done: list[StudyPoint] = []

    def run(_: object, texts: Sequence[tuple[str]], *__: object) -> Iterator[tuple[int, str]]:
        for number, [text] in enumerate(texts):
            point = study.point_of(text)
            done.append(point)
            yield number, study.cached_result(point, result_of(point), 1.0).model_dump_json()

    monkeypatch.setattr(study, "run_in_parallel", run)
    return done
