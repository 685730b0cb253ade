"""A test's name is a claim with nouns: a reader of the name alone knows what breaks when the test fails.

A pronoun in a name stands for a noun of the test's body, which is missing in the report of a failure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[3]
FOLDERS = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
PRONOUNS = re.compile(
    "(?<=_)(it|they|them|theirs|this|these|those|ones|others|such|what|whatever|who|whoever|whom)(?=_|$)"
    "|(?<=^test_)(its|that|their|which|whose)(?=_)"
    "|(?<=_)that(?=_of_|$)"
    "|(?<=_)one(?=_that_)"
    "|(?<=_)so(?!_that_)(?=_|$)"
)
"""Words that stand for a noun or point to it: some anywhere, others at the beginning or without a noun."""


def functions_of_tests(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each test in a folder."""
    for file in sorted((ROOT / folder).rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.name


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_of_a_test_has_a_pronoun(folder: str) -> None:
    tests = dict(functions_of_tests(folder))
    found = [
        f"{place}: {name}: expected a noun instead of {pronoun[0]!r}"
        for place, name in tests.items()
        if (pronoun := PRONOUNS.search(name))
    ]
    assert tests, folder
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    ("name", "pronoun"),
    [
        ("test_it_is_not_again", "it"),
        ("test_what_is_refused", "what"),
        ("test_its_errors_name_the_file", "its"),
        ("test_a_sum_is_that_of_the_model", "that"),
        ("test_the_order_is_like_that", "that"),
        ("test_other_sums_exceed_one_that_wraps", "one"),
        ("test_programs_are_read_so", "so"),
        ("test_a_run_ends_before_others", "others"),
        ("test_a_table_keeps_its_size_so_that_a_row_that_fits_is_added", None),
        ("test_an_item_within_limits_is_whole", None),
    ],
)
def test_a_pronoun_in_a_name_is_found(name: str, pronoun: str | None) -> None:
    found = PRONOUNS.search(name)
    assert (None if found is None else found[0]) == pronoun
