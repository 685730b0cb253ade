"""What a machine may lack: optional packages that set-up does not install, and set-up itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

NO_TORCH = "PyTorch is not installed (extra `torch`)"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=NO_TORCH)
needs_setup = pytest.mark.skipif(
    not (CHECKOUT / ".venv" / "bin" / "python").exists(), reason="needs `make setup`"
)
