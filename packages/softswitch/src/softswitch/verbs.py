"""Entry point of `softswitch`: run a switch, or a subcommand, which is a module with a `main`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from nativekit.installed import absence_message, is_absence
from softswitch.extras import missing_package
from softswitch.shared import is_wanted

# Imported on demand, so that a switch starts without them.
SUBCOMMANDS: dict[str, str] = {
    "cli": "softswitch.commands.cli",
    "compile": "softswitch.p4.command",
    "compile-as": "softswitch.p4.command",
    "conformance": "softswitch.conformance.cli",
    "explain": "softswitch.explaining",
    "install-as": "softswitch.bmv2.install",
    "net": "softswitch.emulation.command",
    "run-as": "softswitch.bmv2.command",
    "simulate": "softswitch.network.command",
}
# Imports, programs and table entries are many long-lived objects: collect cycles rarely.
GC_THRESHOLDS = (100_000, 50, 100)
_PROTOBUF = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def main() -> None:
    if is_wanted() and _is_switch(sys.argv[1:]):
        from softswitch.shared import command

        status = command.run(sys.argv[1:])
        if status is not None:
            command.end_as(status)
    run_here()


def _is_switch(arguments: Sequence[str]) -> bool:
    return not arguments or arguments[0] not in SUBCOMMANDS.keys() - {"run-as"}


def prepare() -> None:
    """Prepare this process for the imports of a switch."""
    gc.set_threshold(*GC_THRESHOLDS)
    select_fast_protobuf()
    # NumPy's BLAS, which nothing here uses, would start a thread for each core, each spinning for 20 ms.
    os.environ.setdefault(_BLAS_THREADS, "1")


def run_here() -> None:
    """Run a switch or a subcommand, as the arguments say, in this process."""
    prepare()
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:  # as long as nothing else handles it: during imports, for example
        sys.exit(128 + signal.SIGINT)


def _run(arguments: list[str]) -> None:
    module = SUBCOMMANDS.get(arguments[0]) if arguments else None
    try:
        if module is None:
            import_module("softswitch.cli").main()
        else:
            import_module(module).main(arguments[1:])
    except ImportError as error:
        what = "softswitch" if module is None else f"softswitch {arguments[0]}"
        message = absence_message(what) if is_absence(error) else missing_package(error, what)
        if message is None:
            raise
        sys.exit(f"softswitch: error: {message}")


def select_fast_protobuf() -> None:
    """Select protobuf's compiled implementation, before it is imported.

    The environment may select the slow Python one, which controllers with messages of an old protoc need.
    """
    os.environ.pop(_PROTOBUF, None)
