"""Tests invoke commands of `hotline` by its group: Click keeps the help option of the first group."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import entry_points

from foundation.checkout import ROOT
from hotline.cli.commands import _CORE


def commands() -> set[tuple[str, str]]:
    """Return the module and the name of each command."""
    found = [*_CORE.values(), *(each.value for each in entry_points(group="hotline.commands"))]
    return {(module, name) for module, _, name in (each.partition(":") for each in found)}


def invoked_alone(source: str) -> Iterator[str]:
    """Yield the names of commands that a module imports, and calls by `CliRunner().invoke`."""
    tree = ast.parse(source)
    imported = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if (node.module, each.name) in commands()
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "invoke":
            yield from (
                each.id for each in node.args[:1] if isinstance(each, ast.Name) and each.id in imported
            )


def test_tests_invoke_no_command_without_its_group() -> None:
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("packages/*/tests/**/*.py")]
    texts = {file: text for file in files if "CliRunner" in (text := file.read_text())}
    assert len(texts) > 5
    found = {str(file.relative_to(ROOT)): [*invoked_alone(text)] for file, text in texts.items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_a_command_without_its_group_is_found() -> None:
    source = "from hotline.cli.watch import watch\nCliRunner().invoke(watch, ['--help'])\n"
    assert [*invoked_alone(source)] == ["watch"]
