"""`python -m switch_harness.cachers FOLDER`: damage each file that the switch caches, in each way.

A process is forked for each, which must compute the same as the first one, and cache it again. FOLDER has the
package `made`, with one entry point, and is where all files are cached. The output is a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from nativekit.cache import read_entry, user_cache
from softswitch.compiled import CompiledPipeline
from softswitch.kernel import assembler, front
from softswitch.kernel.hooks import Hook
from softswitch.load import cached, load_program
from softswitch.memory.layout import make_layout
from switch_harness import PROGRAMS
from switch_harness.damage import DAMAGES, damage, remove

PROGRAM = (PROGRAMS / "wire.json").read_bytes()
FRAME = bytes(range(64))


def compute() -> str:
    """Return a digest of all that the cache holds."""
    sys.modules.pop("made", None)  # has what was loaded before
    made = import_module("made")
    program = cached.load_cached_program(PROGRAM)
    pipeline = CompiledPipeline(program)
    code = front.build_front(program, make_layout(program), 1, frame=Hook.TCX.frame_type, reads_clock=True)
    results: list[Any] = [
        load_program(PROGRAM) == program,
        pipeline.process(1, FRAME, 0, 0),
        code,
        made.doubled(21),
        made.doubled(0.25),
    ]
    return hashlib.sha256(repr(results).encode()).hexdigest()


def in_child() -> str | int:
    """Return what a forked process computes, or how it ended instead."""
    read_end, write_end = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(write_end, compute().encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end) as output:
        text = output.read()
    _, status = os.waitpid(pid, 0)
    return text or os.waitstatus_to_exitcode(status)


def cached_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in (".o", ".nbc") or file.is_symlink())


def faults(folder: Path) -> Iterator[str]:
    """Yield what a damaged file has changed."""
    expected, files = compute(), cached_files(folder)
    contents = {file: file.read_bytes() for file in files}
    for way in DAMAGES:
        for file in files:
            remove(file)
            file.write_bytes(contents[file])
            others = [other for other in files if other != file and other.suffix == file.suffix]
            damage(file, way, contents[others[0]])
        if (found := in_child()) != expected:
            yield f"{way}: {found or 'nothing'}"
        yield from (f"{way}: {file} is not cached again" for file in files if read_entry(file) is None)
        if cached_files(folder) != files:
            yield f"{way}: other files are cached"


def main(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    cached.MIN_CACHED_BYTES = 0
    # What compiles in a process of its own does so once.
    assembler._compile_in_subprocess = cache(assembler._compile_in_subprocess)
    found = list(faults(folder))
    names = sorted({file.suffix for file in cached_files(folder)})
    print(json.dumps({"files": len(cached_files(folder)), "kinds": names, "faults": found}))
    assert user_cache().is_relative_to(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
