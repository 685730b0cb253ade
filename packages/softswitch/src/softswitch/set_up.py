"""Compile P4 programs before their first use: `python -m softswitch.set_up JSON P4INFO`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from softswitch.cache import stored_by_set_up
from softswitch.jit import MachineCode
from softswitch.kernel.control import build_control_code
from softswitch.kernel.front import build_front
from softswitch.memory.layout import make_layout
from softswitch.p4runtime.loaded_config import LoadedConfig


def compile_programs(files: Iterable[tuple[Path, Path]]) -> None:
    """Compile programs, each a file of JSON and one of P4Info, as a switch with default options does.

    They are cached for all users who may run this copy of softswitch.
    """
    with stored_by_set_up():
        build_control_code()
        for json_file, p4info_file in files:
            program = LoadedConfig.read(json_file, p4info_file).program
            MachineCode(program)
            build_front(program, make_layout(program))


if __name__ == "__main__":
    paths = list(map(Path, sys.argv[1:]))
    compile_programs(zip(paths[::2], paths[1::2], strict=True))
