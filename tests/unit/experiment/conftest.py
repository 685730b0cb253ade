"""Fixtures of the tests of a run's configuration and of its phases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiment.run_config import Config, load_config


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[..., Config]:
    """Return a function that loads a run.toml with a text, and variables given as NAME=value."""

    def load(text: str, *variables: str) -> Config:
        file = tmp_path / "run.toml"
        file.write_text(text)
        return load_config([f"CONFIG={file}", *variables])

    return load
