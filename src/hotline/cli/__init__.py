from __future__ import annotations

import os
import sys

from hotline.cli.interruption import end_at_ctrl_c, raise_at_ctrl_c


def main() -> None:
    end_at_ctrl_c()
    # Otherwise gRPC prints a line for every connection that ends.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # These imports take most of a second; Ctrl-C is handled already.
    from hotline.cli.commands import COMMANDS, hotline

    COMMANDS.load(sys.argv[1:])
    raise_at_ctrl_c()
    try:
        hotline(prog_name="hotline")
    finally:
        # Only the interpreter's exit remains.
        end_at_ctrl_c()
