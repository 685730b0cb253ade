"""What the configurations of all agents have in common."""

from __future__ import annotations

from pydantic import Field, field_validator

from foundation.designs.registry import DEFAULT
from foundation.protocol.header import VERSION
from foundation.settings import Strict

_BEFORE_IT_WAS_SAID = 1


class AgentConfig(Strict):
    """An agent of a run."""

    design: str = DEFAULT
    """Of aggregation (`foundation.designs.registry`)."""
    wire: int = Field(default=_BEFORE_IT_WAS_SAID, validate_default=True)
    """Version of the wire that the run speaks: agents of another would not be understood."""

    @field_validator("wire")
    @classmethod
    def _check_wire(cls, wire: int) -> int:
        if wire != VERSION:
            raise ValueError(
                f"the run speaks version {wire} of the wire and this agent version {VERSION}; "
                "start both from one Hotline"
            )
        return wire
