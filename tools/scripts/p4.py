"""Compile the P4 programs: `tools/scripts/p4.py [CALLERS]` by `.venv`, as `make p4` does.

First the constants that Python declares are written into the sources. The compiler is softswitch's, or p4c
if the variable P4C names its program, p4c-bm2-ss or p4c. CALLERS is for switches with less memory: `hotset`
and `collect` get exactly-once cells for fewer callers (docs/design.md), until `make p4` runs without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from controller.sizes import CALLERS
from foundation.checkout import ROOT
from foundation.designs.programs import (
    DEFINITIONS,
    P4Error,
    P4Program,
    definitions_of,
    include_folders,
    programs_of,
    refresh,
    trees,
)
from foundation.designs.sources import COMPILED, mark_compiled, newest_source_ns
from foundation.errors import HotlineError

_SWITCH = ROOT / "packages" / "softswitch"
_VARIABLE, _DRIVER = "P4C", "p4c"


def find_p4c() -> Path | None:
    """Return the program of p4c that `P4C` names, or None without it; raises `P4Error`."""
    named = os.environ.get(_VARIABLE)
    if not named:
        return None
    path = shutil.which(named)
    if path is None:
        raise P4Error(f"P4C={named}: expected a program, found none")
    return Path(path).absolute()


def compile_by_p4c(compiler: Path, program: P4Program) -> bool:
    """Write a program's outputs by p4c; raises `P4Error`."""
    project = _SWITCH if program.source.is_relative_to(_SWITCH) else ROOT
    # A compiled program has the path of its source as p4c is given it.
    output, source = program.output.relative_to(project), program.source.relative_to(project)
    json_file = output.parent if compiler.name == _DRIVER else Path(f"{output}.json")
    driver_options = ["--target", "bmv2", "--arch", "v1model"] if compiler.name == _DRIVER else []
    folders = [option for folder in include_folders() for option in ("-I", str(folder))]
    macros = [f"-D{name}={value}" for name, value in definitions_of(program).items()]
    program.output.parent.mkdir(exist_ok=True)
    command = [
        str(compiler), *driver_options, "--p4runtime-files", f"{output}.p4info.txtpb", "-o", str(json_file),
        *folders, "--Wdisable=unused", *macros, str(source),
    ]  # fmt: skip
    newest_ns = newest_source_ns(program.source)
    done = subprocess.run(command, cwd=project, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise P4Error(f"{compiler} ended with {done.returncode} at {source}")
    program.output.with_suffix(".p4i").unlink(missing_ok=True)  # the driver's copy of the source
    mark_compiled(program.json, newest_ns)
    return True


def write_constants() -> None:
    """Write the constants that Python declares into P4 sources."""
    for script in (
        ROOT / "tools" / "scripts" / "p4_constants.py",
        *ROOT.glob("packages/*/scripts/p4_constants.py"),
    ):
        subprocess.run([sys.executable, str(script)], check=True)


def write_definitions(callers: int) -> None:
    """Write the macros with which `foundation.designs.programs` compiles programs with exactly-once cells."""
    file = ROOT / "p4src" / COMPILED / DEFINITIONS
    file.unlink(missing_ok=True)
    if callers != CALLERS:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"CALLERS": str(callers)}))


def parse_callers(arguments: list[str]) -> int:
    try:
        [text] = arguments or [str(CALLERS)]
        if 2 <= int(text) <= CALLERS:
            return int(text)
    except ValueError:
        pass
    raise P4Error(f"CALLERS: expected an integer from 2 to {CALLERS}, got {' '.join(arguments)!r}")


def compile_all(programs: Iterable[P4Program], compile_one: Callable[[P4Program], bool]) -> int:
    """Compile programs with a line for each, and return how many have changed; raises `P4Error`."""
    chosen, changed = list(programs), 0
    for number, program in enumerate(chosen, 1):
        start = time.monotonic()
        print(f"p4: {number}/{len(chosen)} {program.source.relative_to(ROOT)}", end="", flush=True)
        has_changed = compile_one(program)
        changed += has_changed
        print(f" ({time.monotonic() - start:.1f} s)" if has_changed else " is up to date", flush=True)
    print(f"p4: {changed} of {len(chosen)} programs compiled")
    return changed


def main(arguments: list[str]) -> int:
    try:
        callers, p4c = parse_callers(arguments), find_p4c()
        write_constants()
        write_definitions(callers)
        programs = [program for tree in trees() for program in programs_of(tree)]
        compile_all(programs, refresh if p4c is None else partial(compile_by_p4c, p4c))
    except HotlineError as error:
        print(f"p4: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
