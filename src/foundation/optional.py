from __future__ import annotations

from types import ModuleType

from foundation.errors import HotlineError


class MissingPackage(HotlineError, ImportError):
    """A package that is not installed; the text says how to install it."""


def import_torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise MissingPackage(
            f"PyTorch cannot be imported ({error}): install the extra `torch` with "
            ".venv/bin/pip install 'torch>=2.1'"
        ) from error
    return torch  # type: ignore[no-any-return]  # without PyTorch, type checkers do not know it
