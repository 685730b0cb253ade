from __future__ import annotations

from collections.abc import Iterator

import pytest

from hotline_answers.cluster_answer import ask


@pytest.fixture(scope="module")
def no_input_effects() -> Iterator[None]:
    """Leave other values of inputs out of answers: eight simulations that test_sensitivity.py compares."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ask, "input_effects", lambda *_: ())
        yield
