"""A design's P4 program in process: compiled, interpreted from changed sources, or elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from controller.tables import TableRow
from foundation.designs.interface import Design
from foundation.designs.programs import include_folders
from hotline_simulator.simulated_switch import RowWriter, compiled_config
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4.bmv2_json import bmv2_json
from softswitch.p4.compiler import compile_file
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


class Edit(NamedTuple):
    """A change of a P4 source."""

    file: str
    """Path from the folder of the design's P4 sources, such as `hotset/bank.p4`."""
    old: str
    """A text that is there once."""
    new: str = ""


def edited(design: Design, *edits: Edit) -> dict[str, Any]:
    """Return a design's program, compiled from edited sources."""
    with TemporaryDirectory() as folder:
        tree = Path(folder, "p4src")
        shutil.copytree(design.program.parents[1], tree, ignore=shutil.ignore_patterns("compiled"))
        for file, old, new in edits:
            source = (tree / file).read_text()
            assert source.count(old) == 1, f"{file}: expected `{old}` once"
            (tree / file).write_text(source.replace(old, new))
        return bmv2_json(compile_file(tree / design.name / f"{design.name}.p4", [tree, *include_folders()]))
