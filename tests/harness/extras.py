"""Optional packages that set-up does not install."""

from __future__ import annotations

import importlib.util

import pytest

NO_TORCH = "PyTorch is not installed (extra `torch`)"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=NO_TORCH)
