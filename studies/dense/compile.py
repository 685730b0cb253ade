"""The decorator of what Python calls here; the functions behind it are of this room and of those below."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import simulator
from foundation.compiled import sources
from nativekit.compile import cached_entry_point

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent
_MADE_OF = (
    *(_HERE / f"{name}.py" for name in ("play", "search", "wires")),
    *(Path(simulator.__file__).with_name(f"{name}.py") for name in ("events", "links", "state")),
)


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    return cached_entry_point(function, _HERE, (*sources(), *_MADE_OF))
