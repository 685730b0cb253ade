"""P4Runtime messages of another client library, finsy, which softswitch has to take."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from finsy.proto import p4i, p4r

from softswitch.conformance import client


@cache
def _serialized_config(program: Path) -> bytes:
    return client.pipeline_config(program).SerializeToString()


def read_p4info(program: Path) -> p4i.P4Info:
    return pipeline_config(program).p4info


def pipeline_config(program: Path) -> p4r.ForwardingPipelineConfig:
    """Return a new message. The files are read once, because P4Info takes long to parse as text."""
    return p4r.ForwardingPipelineConfig.FromString(_serialized_config(program))
