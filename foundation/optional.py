"""What set-up does not install: who needs it asks here."""

from __future__ import annotations

from types import ModuleType

from foundation.errors import HotlineError


class Missing(HotlineError, ImportError):
    """A package that is not here; the text says how to install it."""


def torch_here() -> ModuleType:
    """PyTorch; raises `Missing` where it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise Missing(
            f"PyTorch is not here ({error}): .venv/bin/pip install 'torch>=2.1', which is the extra `torch`"
        ) from error
    return torch  # type: ignore[no-any-return]  # where it is not installed it is nothing to type checkers
