"""P4Runtime messages of another client library, finsy, which softswitch has to take."""

from __future__ import annotations

from pathlib import Path

from finsy.proto import p4i, p4r

from softswitch.conformance import client


def read_p4info(program: Path) -> p4i.P4Info:
    return p4i.P4Info.FromString(client.read_p4info(program).SerializeToString())


def pipeline_config(program: Path) -> p4r.ForwardingPipelineConfig:
    return p4r.ForwardingPipelineConfig.FromString(client.pipeline_config(program).SerializeToString())
