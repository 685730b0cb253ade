"""`python -m tests.harness.with_variables VARIABLES MODULE ARGUMENTS`: run a module with more variables.

VARIABLES is a JSON object of environment variables, which the fork of a process cannot be given otherwise.
"""

from __future__ import annotations

import json
import os
import runpy
import sys


def main(variables: str, module: str, *arguments: str) -> None:
    values: dict[str, str] = json.loads(variables)
    os.environ.update(values)
    # Python reads it when it starts.
    sys.path[:0] = filter(None, values.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
