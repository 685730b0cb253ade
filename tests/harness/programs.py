"""A design's P4 program in process: compiled, interpreted from a changed description, or elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.tables import TableRow
from foundation.designs.interface import Design
from simulator.simulated_switch import RowWriter, compiled_config
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import p4r
from softswitch.state.pipeline import StatePipeline

ROOT = Path(__file__).parents[2]


def pipeline_of(
    design: Design,
    rows: Sequence[TableRow],
    description: Mapping[str, Any] | None = None,
    pipeline: StatePipeline | None = None,
) -> Any:  # a pipeline of either kind
    """Return the program with `rows`: compiled, interpreted from `description`, or in an empty `pipeline`."""
    compiled = compiled_config(design)
    config: LoadedConfig = compiled.config
    make: Callable[[Any], Any] = compiled.pipeline if pipeline is None else lambda _: pipeline
    if description is not None:
        config, make = _config_of(design, description), InterpretedPipeline
    control = ControlledPipeline(config, make, clock=lambda: 0)
    RowWriter(control).insert(rows)
    return control.pipeline


def _config_of(design: Design, description: Mapping[str, Any]) -> LoadedConfig:
    device_config = json.dumps(description).encode()
    p4info = read_p4info(design.p4info)
    return LoadedConfig(p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config))


def described(design: Design) -> dict[str, Any]:
    return dict(json.loads(design.program.read_text()))


def broken(design: Design, file: str, text: str, *changes: tuple[str, str]) -> dict[str, Any]:
    """Return the program with other constants or fields in what the compiler made of one line."""
    source = (design.program.parents[1] / design.name / file).read_text().splitlines()
    [line] = [number for number, each in enumerate(source, start=1) if text in each]
    changed = 0

    def changed_if_there(piece: dict[str, Any]) -> dict[str, Any]:
        nonlocal changed
        at = piece.get("source_info", {"filename": "", "line": 0})
        if not at["filename"].endswith(f"/{file}") or at["line"] != line:
            return piece
        at = piece.pop("source_info")
        text_of_piece = json.dumps(piece)
        for old, new in changes:
            changed += old in text_of_piece
            text_of_piece = text_of_piece.replace(old, new)
        return {**json.loads(text_of_piece), "source_info": at}

    found = described(design)
    for action in found["actions"]:
        action["primitives"] = [changed_if_there(each) for each in action["primitives"]]
    for pipeline in found["pipelines"]:
        pipeline["conditionals"] = [changed_if_there(each) for each in pipeline["conditionals"]]
    assert changed
    return found
