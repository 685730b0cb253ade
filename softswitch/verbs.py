"""What `softswitch` does besides running a switch: verbs, each a module with a `main` of its own."""

from __future__ import annotations

import sys
from importlib import import_module

# Imported when it is asked for: a switch that starts needs none of them.
VERBS = {"explain": "softswitch.explain.cli"}


def main() -> None:
    """Run the verb that the first argument names, or the switch where it names none."""
    module = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        import_module("softswitch.cli").main()
    else:
        import_module(module).main(sys.argv[2:])
