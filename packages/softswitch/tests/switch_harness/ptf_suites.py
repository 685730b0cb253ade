"""Run the PTF suites of p4lang/tutorials and p4-guide: their scripts runptf.sh, unedited.

Each script compiles a program with `p4c`, starts the `simple_switch_grpc` that stands first on the PATH on
the kernel's interfaces, runs `ptf`, and kills the switch by its name. So it runs in namespaces of its own, as
root. The folder of `--python` has ptf, with p4runtime-shell, and PI's p4/tmp/p4config_pb2 for the tutorials.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from switch_harness.namespaces import OWN_NAMESPACES

SCRIPT_S = 1800.0
_NOT_FOR_BMV2 = "ipdk"
_NAME = re.compile(r"^([\w-]+\.\w+)(?: \.\.\. |$)", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAIL|ERROR): ([\w-]+\.\w+)", re.MULTILINE)
_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_SUDO = '#!/bin/sh\nexec "$@"\n'


def run_ptf(checkout: Path, python: str, programs: Path, only: re.Pattern[str]) -> dict[str, bool]:
    """Run all scripts of a checkout; a test is called by the script's folder, its module and its class."""
    found: dict[str, bool] = {}
    for script in _scripts(checkout):
        suite = script.parent.relative_to(checkout).as_posix()
        if only.search(suite):
            printed = _run(checkout, script, python, programs)
            found |= {f"{suite}/{name}": is_ok for name, is_ok in verdicts(printed).items()}
    return found


def _scripts(checkout: Path) -> Iterator[Path]:
    for script in sorted(checkout.rglob("runptf.sh")):
        if _NOT_FOR_BMV2 not in script.relative_to(checkout).parts:
            yield script


def verdicts(printed: str) -> dict[str, bool]:
    """Return whether each test passed; a script that did not get as far as its summary is one failed test."""
    names, failed = set(_NAME.findall(printed)), set(_FAILED.findall(printed))
    ran = _RAN.search(printed)
    if ran is None or int(ran[1]) != len(names):
        return {"runptf.sh": False}
    return {name: name not in failed for name in names}


def _run(checkout: Path, script: Path, python: str, programs: Path) -> str:
    (script.parent / "logs").mkdir(exist_ok=True)  # as the tutorials' `make test` does
    with TemporaryDirectory() as folder:
        sudo = Path(folder) / "sudo"
        sudo.write_text(_SUDO)
        sudo.chmod(0o755)
        path = f"{programs}:{folder}:{Path(python).absolute().parent}:{os.environ['PATH']}"
        command = [str(OWN_NAMESPACES), "sh", "-c", f"{checkout}/bin/veth_setup.sh && exec ./{script.name}"]
        with (Path(folder) / "printed").open("w+", errors="replace") as printed:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    command,
                    cwd=script.parent,
                    env={"PATH": path, "HOME": folder},
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    timeout=SCRIPT_S,
                )
            printed.seek(0)
            return printed.read()
