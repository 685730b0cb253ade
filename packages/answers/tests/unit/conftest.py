from __future__ import annotations

from collections.abc import Iterator

import pytest

from hotline_answers.cluster_answer import ask, computing
from packages.answers.tests.harness import workloads


@pytest.fixture(scope="module", autouse=True)
def generated_once() -> Iterator[None]:
    """Generate each trace once in the process."""
    with workloads.generated_once():
        yield


@pytest.fixture(scope="module")
def small_workload() -> Iterator[None]:
    """Have clusters train on fewer parameters and mini-batches than those of the built-in workload."""
    with workloads.small_workload():
        yield


@pytest.fixture(scope="module")
def no_input_effects() -> Iterator[None]:
    """Leave other values of inputs out, which test_sensitivity.py and test_computing.py compare."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ask, "input_effects", lambda *_: ())
        patched.setattr(computing, "COMPUTE_MS", (0.0,))
        yield
