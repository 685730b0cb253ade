"""Commands of `hotline`, run in the tests' own process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from hotline.cli.commands import hotline


def invoke(*arguments: object) -> Result:
    """Run a command; exceptions that it does not turn into a message are raised."""
    return CliRunner().invoke(hotline, list(map(str, arguments)), catch_exceptions=False)


def json_of(*arguments: object) -> Any:
    """Return what a command that succeeds prints with `--json`."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
