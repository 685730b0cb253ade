"""What `softswitch` does besides running a switch: verbs, each a module with a `main` of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# Imported when it is asked for: a switch that starts needs none of them.
VERBS: dict[str, str] = {
    "cli": "softswitch.commands.cli",
    "conformance": "softswitch.conformance.cli",
    "explain": "softswitch.explain.cli",
    "install-as": "softswitch.bmv2.install",
    "run-as": "softswitch.bmv2.command",
}
_PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


def main() -> None:
    """Run the verb that the first argument names, or the switch where it names none."""
    fast_protobuf()
    module = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        import_module("softswitch.cli").main()
    else:
        import_module(module).main(sys.argv[2:])


def fast_protobuf() -> None:
    """Have protobuf's compiled code, before it is imported: the slow one is for others' old messages.

    Whoever runs a controller with messages of an old protoc has `python` in the environment.
    """
    os.environ.pop(_PROTOBUF, None)
