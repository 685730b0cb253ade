"""Every NAME=value of `hotline run` with wrong values of each kind: a configuration, or one clear error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiment.phases.workload import read_data
from experiment.run_config import load_config
from experiment.variables import VARIABLES
from foundation.errors import HotlineError
from switch_harness.wording import mentions
from tests.harness.broken_files import BROKEN
from tests.harness.sessions import quiet

WRONG_VALUES = {
    "nothing": "",
    "a relative module": "..",
    "a dot": ".",
    "a module that is no design": "os.path",
    "a module that does not exist": "no.such.module",
    "NUL": "a\0b",
    "a negative number": "-1",
    "zero": "0",
    "a fraction": "1.5",
    "infinity": "1e999",
    "no number": "nan",
    "a large number": "9" * 30,
    "more digits than Python converts": "9" * 5_000,
    "a list": "[1, 2]",
    "an open table": "{a =",
    "nesting": "[" * 3_000,
    "blanks": "a b",
    "a line break": "a\nb",
    "another script": "４",
    "a surrogate": "\udcff",
    "a long text": "x" * 10_000,
}
ANYTHING = ("DATA", "SCRIPT", "COLUMNS")
"""Variables whose values are checked when they are used."""


@pytest.mark.parametrize("name", VARIABLES)
def test_a_wrong_value_is_one_error_that_names_the_variable(name: str) -> None:
    refused = 0
    for kind, value in WRONG_VALUES.items():
        try:
            load_config([f"{name}={value}"])
        except HotlineError as error:
            refused += 1
            message = str(error)
            assert message.startswith(name) or f"{VARIABLES[name].setting} = " in message, (
                f"{kind}: {message}"
            )
            assert "\n" not in message and len(message) < 25_000, kind
    # A text has no line break and no NUL; other values are of a type or among a few names.
    assert refused >= (2 if name in ANYTHING else len(WRONG_VALUES) - 3)


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_data_is_one_error_that_names_the_file(kind: str, tmp_path: Path) -> None:
    BROKEN[kind](tmp_path / "log")
    with pytest.raises(HotlineError) as refused:
        read_data(load_config([f"DATA={tmp_path / 'log'}"]), quiet())
    place = r"(, line 1)?(, column \d+)?(, element \d+)?: "
    assert re.match(re.escape(f"DATA={tmp_path / 'log'}") + place, str(refused.value))
    assert "\n" not in str(refused.value) and "disk" not in str(refused.value)


@pytest.mark.parametrize("kind", [kind for kind in BROKEN if kind != "empty"])
def test_a_broken_configuration_is_one_error_that_names_the_file(kind: str, tmp_path: Path) -> None:
    """An empty configuration is one of defaults."""
    BROKEN[kind](tmp_path / "run.toml")
    with pytest.raises(HotlineError) as refused:
        load_config([f"CONFIG={tmp_path / 'run.toml'}"])
    assert str(refused.value).startswith(f"CONFIG={tmp_path / 'run.toml'}: ")
    assert "\n" not in str(refused.value)


def test_a_configuration_with_nul_in_a_path_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('data = "log\\u0000.csv"\n')
    with pytest.raises(HotlineError, match=mentions("run.toml", "NUL")):
        load_config([f"CONFIG={config}"])
