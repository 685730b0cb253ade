"""Every file that a reader may find is written by a function that replaces it as a whole.

A call that writes a file stands in `with atomic_path(...)`, or its module is one of the exceptions below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("controller", "hosts", "packages/*/src", "src", "topologies")
METHODS = {
    "copyfile", "copytree", "mkstemp", "np.save", "np.savez", "savefig", "sink_parquet", "tofile",
    "write_bytes", "write_csv", "write_parquet", "write_text",
}  # fmt: skip
WHOLE = {"write_text", "write_into_folder", "save_arrays"}
"""Functions of `foundation.logs.parts` with the names of methods, which write a file as a whole."""
EXCEPTIONS = {
    "src/foundation/folders.py": "copies into a folder that is renamed when it is complete",
    "src/foundation/logs/access/steps.py": "temporary files, which only this process reads",
    "hosts/scapy/ledger.py": "a file of zeros, valid from its magic number on",
    "hosts/ledger.py": "a file of zeros, valid from its magic number on",
    "hosts/workload/trace.py": "columns, valid from the file of metadata on",
    "packages/softswitch/src/nativekit/files.py": "the function itself",
    "packages/softswitch/src/softswitch/cache.py": "a lock file",
    "packages/softswitch/src/softswitch/shared/command.py": "a lock file",
    "packages/softswitch/src/softswitch/commands/device.py": "the output of a command",
    "packages/softswitch/src/softswitch/emulation/hosts.py": "settings of the kernel",
    "packages/softswitch/src/softswitch/explain/live.py": "a trace, which is written while it is read",
    "packages/softswitch/src/softswitch/kernel/interfaces.py": "settings of the kernel",
    "packages/softswitch/src/softswitch/kernel/steering.py": "settings of the kernel",
    "packages/softswitch/src/softswitch/p4runtime/service.py": "Write requests of P4Runtime",
    "packages/course/child.py": "a submission's files, in a folder that only its process reads",
    "packages/course/isolation.py": "settings of the kernel",
    "packages/simulator/simulated_switch.py": "Write requests of P4Runtime",
    "packages/simulator/cli/explain.py": "/dev/null",
    "packages/scripts/kv/launch.py": "the log of a process",
    "packages/machines/network.py": "a file that is renamed when it is complete",
    "packages/machines/remote.py": "the log of a process",
    "packages/machines/supervisor/operations.py": "files of a run, before its agents begin",
    "packages/paper/stages.py": "the log of a process",
    "packages/tofino/model.py": "temporary files, which only this process and the harness read",
    "topologies/agent_launcher.py": "the log of a process",
    "topologies/agent_process.py": "the log of a process",
    "topologies/network.py": "the log of a process",
    "topologies/script_command.py": "the log of a process",
    "topologies/switches.py": "the log of a process",
    "packages/scripts/rendezvous.py": "appends a line",
    "topologies/routes.py": "settings of the kernel",
    "topologies/run_lock.py": "the lock file, whose record is written by one call",
    "src/experiment/members.py": "appends a line",
}


def writes(source: str) -> Iterator[int]:
    """Yield the lines of calls that write a file outside of `atomic_path`."""
    if not any(f"{name.rpartition('.')[2]}(" in source for name in (*METHODS, "open")):
        return  # most modules, which need no parsing
    tree = ast.parse(source)
    atomic = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any("atomic_path(" in ast.unparse(each) for each in node.items)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in atomic and is_write(node):
            yield node.lineno


def is_write(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id not in WHOLE and (call.func.id in METHODS or opens_for_writing(call))
    if not isinstance(call.func, ast.Attribute):
        return False
    return bool(METHODS & {call.func.attr, ast.unparse(call.func)}) or opens_for_writing(call)


def opens_for_writing(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    arguments = [*call.args, *(named.value for named in call.keywords)]
    texts = [each.value for each in arguments if isinstance(each, ast.Constant)]
    modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+")]
    return name == "open" and any(set(mode) & set("wax+") for mode in modes)


def modules() -> dict[str, Path]:
    """Return the files of all modules; those of a package by their path below its import name."""
    folders = [path for folder in FOLDERS for path in sorted(ROOT.glob(folder))]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    return {
        re.sub(r"^(packages/\w+)/src/hotline_\w+", r"\1", str(file.relative_to(ROOT))): file for file in files
    }


def test_files_are_written_as_a_whole() -> None:
    found = {name: lines for name, file in modules().items() if (lines := list(writes(file.read_text())))}
    assert {name: lines for name, lines in found.items() if name not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(found), "expected no exception for a module that writes no file"


@pytest.mark.parametrize(
    "code", ["p.write_text(t)", "open(p, 'w')", "p.open('ab')", "np.save(p, a)", "f.write_parquet(p)"]
)
def test_a_write_in_place_is_found(code: str) -> None:
    assert list(writes(code)) == [1]
    assert list(writes(f"with atomic_path(q) as p:\n    {code}")) == []
    assert list(writes("write_text(p, t)\np.open()\np.open('rb')\np.read_text()")) == []
