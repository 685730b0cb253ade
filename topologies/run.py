"""`python -m topologies.run [NAME=value ...]`: the main job, `make run-topo`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from topologies.signals import STOP


def main(arguments: Sequence[str] | None = None) -> int:
    """See `topologies.lifecycle.main`."""
    # gRPC tells the terminal of every connection that ends.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Takes seconds: a signal is heard before.
    from topologies import lifecycle

    return lifecycle.main(arguments)


if __name__ == "__main__":
    STOP.listen()
    STOP.exit(main())
