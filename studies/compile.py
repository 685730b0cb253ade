"""Compilation of a study's functions, with machine code cached until a source of the study changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import nativekit.compile
import simulator
from foundation.compiled import sources as agent_sources
from nativekit.compile import cached_entry_point

F = TypeVar("F", bound=Callable[..., object])

_STUDIES = Path(__file__).parent
_LINK_MODULES = [Path(simulator.__file__).with_name(f"{name}.py") for name in ("events", "links", "state")]
_CALLED_MODULES = {  # modules of other packages that the compiled code of a study calls
    "dense": (*agent_sources(), *_LINK_MODULES),
}


def entry_point(function: F) -> F:
    """Compile a function that Python calls, to run without the GIL; the machine code is cached on disk."""
    study = Path(function.__code__.co_filename).relative_to(_STUDIES).parts[0]
    return cached_entry_point(function, _STUDIES / study, sources(study))


@cache
def sources(study: str) -> tuple[Path, ...]:
    files = sorted((_STUDIES / study).rglob("*.py"))
    return (*files, *_CALLED_MODULES.get(study, ()), Path(__file__), Path(nativekit.compile.__file__))
