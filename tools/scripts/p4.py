"""Compile the P4 programs that have changed: `tools/scripts/p4.py [CALLERS]` by `.venv`, as `make p4` does.

First the constants that Python declares are written into the sources. Each folder `compiled` has the digests
of the sources that its programs were made of, which tests compare, too. CALLERS is for switches with less
memory: `hotset` and `collect` get exactly-once cells for fewer callers (docs/design.md).

The compiler is the one that the variable P4C names, or p4c-bm2-ss or p4c on the PATH, or that of the image
p4lang/p4c, which podman or docker runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from controller.sizes import CALLERS

ROOT = Path(__file__).parents[2]
DIGESTS = Path("compiled", "sources.sha256")
_SWITCH = ROOT / "packages" / "softswitch"
_CELLS = ROOT / "p4src" / "hotset" / "exactly_once.p4"
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_VARIABLE, _COMPILER, _DRIVER, _IMAGE = "P4C", "p4c-bm2-ss", "p4c", "p4lang/p4c"
_CONTAINER_PROGRAMS = ("podman", "docker")
_NO_COMPILER = """\
p4: expected a P4 compiler, found none: P4C=/path/to/p4c-bm2-ss names one; or put p4c-bm2-ss or p4c on the
PATH; or install podman or docker, which run the image p4lang/p4c (for x86-64 only). Where to get it:
  Ubuntu 22.04 on x86-64  package p4lang-p4c (version 1.2.4.2) of the P4 project, in openSUSE's build service
                          as home:p4lang:latest; Vagrantfile sets it up (https://github.com/p4lang/p4c#ubuntu)
  openSUSE                package p4c
  Nix                     p4c (version 1.2.4.1) of nixpkgs
  Debian, arm64, others   no package: build https://github.com/p4lang/p4c, which is also in Bazel's registry
The compiled programs are committed: only a change of a .p4 file needs the compiler.
"""


class P4Program(NamedTuple):
    source: Path
    output: Path
    """Path of the compiled program without `.json`."""
    project: Path
    """Folder that p4c is called in: a compiled program has the path of its source as given to p4c."""


class CompilerError(Exception): ...


class Compiler(NamedTuple):
    command: tuple[str, ...]
    """Program and its first arguments."""
    is_driver: bool
    """Whether the program is `p4c`, which calls p4c-bm2-ss and takes the folder of its output."""
    is_in_container: bool = False

    def arguments(self, program: P4Program) -> list[str]:
        """Return the command that compiles a program, without options for the preprocessor."""
        command = [*self.command]
        if self.is_in_container:
            command[-2:-2] = ["--workdir", str(program.project)]
        if self.is_driver:
            command += ["--target", "bmv2", "--arch", "v1model"]
        output = program.output.relative_to(program.project)
        json = output.parent if self.is_driver else f"{output}.json"
        return [*command, "--p4runtime-files", f"{output}.p4info.txtpb", "-o", str(json)]


def find_compiler() -> Compiler:
    """Return the compiler; raise `CompilerError`, whose text says where to get one."""
    if named := os.environ.get(_VARIABLE):
        path = shutil.which(named)
        if path is None:
            raise CompilerError(f"p4: P4C={named}: expected a program, found none\n")
        return Compiler((str(Path(path).absolute()),), Path(path).name == _DRIVER)
    for name in (_COMPILER, _DRIVER):
        if path := shutil.which(name):
            return Compiler((path,), name == _DRIVER)
    for name in _CONTAINER_PROGRAMS:
        if path := shutil.which(name):
            # podman's root in a container is the user, whereas docker's files would be root's.
            user = () if name == "podman" else ("--user", f"{os.getuid()}:{os.getgid()}")
            command = (path, "run", "--rm", *user, "--volume", f"{ROOT}:{ROOT}", _IMAGE, _COMPILER)
            return Compiler(command, False, True)
    raise CompilerError(_NO_COMPILER)


def trees() -> Iterator[Path]:
    """Yield the folders of P4 sources, each with a folder `compiled`."""
    yield ROOT / "p4src"
    yield from sorted(ROOT.glob("packages/*/p4src"))
    for pattern in ("", "packages/*/"):
        yield from (folder.parent for folder in sorted(ROOT.glob(f"{pattern}tests/programs/compiled")))
    yield ROOT / "tests" / "designs" / "tutorial"


def programs_of(tree: Path) -> list[P4Program]:
    """Return a tree's programs: a design's has its folder's name, a test's is included by no other file."""
    sources = sorted(tree.rglob("*.p4"))
    if tree.name == "p4src":
        sources = [source for source in sources if source.stem == source.parent.name]
    else:
        included = set().union(*(included_by(source) - {source} for source in sources))
        sources = [source for source in sources if source not in included]
    project = _SWITCH if tree.is_relative_to(_SWITCH) else ROOT
    return [P4Program(source, tree / "compiled" / source.stem, project) for source in sources]


@cache
def included_by(source: Path) -> frozenset[Path]:
    """Return a source and all files that it includes, but for those of p4c."""
    files = {source}
    for name in _INCLUDE.findall(source.read_text()):
        folders = (source.parent, ROOT / "p4src", *_package_sources())
        found = next((path for folder in folders if (path := (folder / name).resolve()).is_file()), None)
        if found is not None:
            files |= included_by(found)
    return frozenset(files)


@cache
def _package_sources() -> tuple[Path, ...]:
    return tuple(sorted(ROOT.glob("packages/*/p4src")))


def sources_of(tree: Path) -> dict[str, str]:
    """Return the digests of a tree's sources by path, as `sha256sum` prints them."""
    return {f"./{source.relative_to(tree)}": _digest(source) for source in sorted(tree.rglob("*.p4"))}


def recorded_sources(tree: Path) -> dict[str, str]:
    if not (tree / DIGESTS).is_file():
        return {}
    lines = (tree / DIGESTS).read_text().splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


@cache
def _digest(source: Path) -> str:
    return sha256(source.read_bytes()).hexdigest()


def needs_compiling(program: P4Program, changed: set[Path], callers: int = CALLERS) -> bool:
    if not program.output.with_suffix(".json").is_file() or included_by(program.source) & changed:
        return True
    return has_cells_of_callers(program) and callers_of(program) != callers


def has_cells_of_callers(program: P4Program) -> bool:
    """Return whether `CALLERS` of `make p4` is for this program: a design with the cells of hotset."""
    return program.source.is_relative_to(ROOT / "p4src") and _CELLS in included_by(program.source)


def callers_of(program: P4Program) -> int:
    """Return the number of callers that a program with such cells was compiled for."""
    p4info = program.output.with_suffix(".p4info.txtpb").read_text()
    [size] = re.findall(r'name: "HotlineIngress\.identify\.workers".*?\n  size: (\d+)', p4info, re.DOTALL)
    return int(size)


def changed_sources() -> set[Path]:
    """Return the sources that differ from those that the compiled programs were made of."""
    changed = set()
    for tree in trees():
        recorded = recorded_sources(tree)
        digests = sources_of(tree).items()
        changed |= {(tree / name).resolve() for name, digest in digests if recorded.get(name) != digest}
    return changed


def compile_program(program: P4Program, compiler: Compiler, callers: int = CALLERS) -> str:
    """Write NAME.json and NAME.p4info.txtpb, and return p4c's warnings; raises `CalledProcessError`."""
    command = [*compiler.arguments(program), "-I", "p4src", "--Wdisable=unused"]
    if callers != CALLERS and has_cells_of_callers(program):
        command.append(f"-DCALLERS={callers}")
    source = str(program.source.relative_to(program.project))
    program.output.parent.mkdir(exist_ok=True)
    warnings = subprocess.run(
        [*command, source], cwd=program.project, check=True, stderr=subprocess.PIPE, text=True
    ).stderr
    program.output.with_suffix(".p4i").unlink(missing_ok=True)  # the driver's copy of the source
    return warnings


def main(arguments: list[str]) -> int:
    try:
        [text] = arguments or [str(CALLERS)]
        callers = int(text)
        if not 2 <= callers <= CALLERS:
            raise ValueError
    except ValueError:
        print(
            f"p4: CALLERS: expected an integer from 2 to {CALLERS}, got {' '.join(arguments)!r}",
            file=sys.stderr,
        )
        return 2
    try:
        compiler = find_compiler()
    except CompilerError as error:
        sys.stderr.write(str(error))
        return 1
    for script in (
        ROOT / "tools" / "scripts" / "p4_constants.py",
        *ROOT.glob("packages/*/scripts/p4_constants.py"),
    ):
        subprocess.run([sys.executable, str(script)], check=True)
    changed = changed_sources()
    programs = [
        each for tree in trees() for each in programs_of(tree) if needs_compiling(each, changed, callers)
    ]
    for number, program in enumerate(programs, 1):
        start = time.monotonic()
        print(f"p4: {number}/{len(programs)} {program.source.relative_to(ROOT)}", end="", flush=True)
        try:
            warnings = compile_program(program, compiler, callers)
        except subprocess.CalledProcessError as error:
            print(flush=True)
            print(f"{error.stderr}p4: {compiler.command[0]} ended with {error.returncode}", file=sys.stderr)
            return 1
        print(f" ({time.monotonic() - start:.0f} s)", flush=True)
        sys.stderr.write(warnings)
    for tree in trees():
        lines = (f"{digest}  {name}\n" for name, digest in sources_of(tree).items())
        (tree / DIGESTS).parent.mkdir(exist_ok=True)
        (tree / DIGESTS).write_text("".join(lines))
    print(f"p4: {len(programs)} of {sum(len(programs_of(tree)) for tree in trees())} programs compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
