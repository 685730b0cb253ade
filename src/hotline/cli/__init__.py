"""The command line `hotline`."""

from __future__ import annotations

import os

from hotline.cli.interruption import end_at_ctrl_c, raise_at_ctrl_c


def main() -> None:
    """Run the command line, and exit."""
    end_at_ctrl_c()
    # gRPC tells the terminal of every connection that ends.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Takes the better part of a second: a signal is heard before.
    from hotline.cli.commands import hotline

    raise_at_ctrl_c()
    try:
        hotline(prog_name="hotline")
    finally:
        # What is left is the interpreter's end.
        end_at_ctrl_c()
