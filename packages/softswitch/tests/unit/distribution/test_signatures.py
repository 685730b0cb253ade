"""Functions take few arguments: many that belong together are a record with names."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

from softswitch import cli

SOURCES = Path(__file__).parents[3] / "src"
MAX_PARAMETERS = 8


def functions() -> dict[str, int]:
    """Return the number of parameters of each function, besides `self`."""
    counts = {}
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [argument.arg for argument in arguments if argument.arg != "self"]
                counts[f"{file.relative_to(SOURCES)}: {node.name}"] = len(names)
    return counts


def test_functions_take_few_arguments() -> None:
    assert {name for name, count in functions().items() if count > MAX_PARAMETERS} == {
        "softswitch/network/network.py: add_switch",  # by keyword, in scripts of users
        "softswitch/native.py: call_process",  # the packet function (`memory.process`)
        "softswitch/state/write.py: _write",  # compiled code, where records of arrays cost time
        "softswitch/state/write.py: write_entries",
    }


def test_the_command_line_has_the_options_of_its_record() -> None:
    given = {parameter.name for parameter in cli.command.params} - {"version"}
    assert given == {field.name for field in fields(cli.Options)}
