"""What a run does for each design before its arms are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from foundation.designs.interface import Design
from foundation.designs.registry import Parts

PREPARATION = Parts[Callable[[Any, Any], Awaitable[None]]](
    "experiment", "prepare", {"hotset": "experiment.hotset"}
)


async def prepare(design: Design, session: Any, trace: Any) -> None:
    """Do what the design needs before arms are measured, such as loading the hottest keys."""
    function = PREPARATION.find(design)
    if function is not None:
        await function(session, trace)
