"""The programs of a network's switches: each is loaded and compiled once for all that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.jit import MachineCode
from softswitch.load.cached import load_cached_program
from softswitch.p4runtime.device_config import extract_program
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import p4r
from softswitch.program_files import read_program


class Programs:
    def __init__(self) -> None:
        self._configs: dict[tuple[object, ...], LoadedConfig] = {}
        self._codes: dict[tuple[int, int], tuple[ir.Program, MachineCode]] = {}

    def load(
        self,
        program: Path,
        p4info: Path | None = None,
        folders: Sequence[Path] = (),
        definitions: Mapping[str, str | int] | None = None,
    ) -> LoadedConfig:
        """Return a program with its P4Info, generated if there is none; raises `SwitchError`."""
        macros = tuple((name, str(value)) for name, value in (definitions or {}).items())
        key = (program.resolve(), p4info and p4info.resolve(), tuple(folders), macros)
        if key not in self._configs:
            data, compiled_p4info = read_program(program, folders, macros)
            info = compiled_p4info if p4info is None else read_p4info(p4info)
            try:
                if info is not None:
                    config = LoadedConfig(p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=data))
                else:
                    loaded_program = load_cached_program(extract_program(data))
                    config = LoadedConfig(generate_config(data, loaded_program), loaded_program)
            except SwitchError as error:
                raise SwitchError(f"{program}: {error}") from error
            self._configs[key] = config
        return self._configs[key]

    def compile(self, program: ir.Program, priorities: int) -> MachineCode:
        key = (id(program), priorities)
        if key not in self._codes:
            # The program is kept, so that its `id` stays its own.
            self._codes[key] = program, MachineCode(program, priorities, buffered=True)
        return self._codes[key][1]

    def make_pipeline(self, program: ir.Program, priorities: int) -> CompiledPipeline:
        return CompiledPipeline(program, self.compile(program, priorities), priorities)
