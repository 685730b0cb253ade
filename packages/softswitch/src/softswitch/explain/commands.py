"""Pipeline state from a file of BMv2 commands (`softswitch cli`), without a running switch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from softswitch import ir
from softswitch.commands.shell import FileError, Shell
from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.runtime.device import SwitchRuntime
from softswitch.runtime.no_ports import NoPorts

_MakePipeline: TypeAlias = Callable[[ir.Program], InterpretedPipeline]


def run_commands(data: bytes, make_pipeline: _MakePipeline, path: Path) -> InterpretedPipeline:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise SwitchError(f"{path}: {reason}") from None
    with closing(NoPorts()) as ports:
        # `Any`, since an interpreted pipeline cannot decode ports' notices; `NoPorts` has none.
        pipelines = Pipelines[Any](ports, make_pipeline, folder_of=lambda _: None)
        pipelines.load_bare(data)
        assert pipelines.bare is not None
        runtime = SwitchRuntime[Any](pipelines, ports, device_id=0)
        Shell(runtime, say=lambda _: None, runs_shell=False).run_all(lines, str(path), _raise_error)
        pipeline: InterpretedPipeline = pipelines.bare.pipeline
        return pipeline


def _raise_error(error: FileError) -> None:
    raise error
