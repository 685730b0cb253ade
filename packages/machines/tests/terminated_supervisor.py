"""`python -m packages.machines.tests.terminated_supervisor`: a supervisor that is terminated at its end.

It gets SIGTERM while it removes what it has made, as from `hotline down`. It writes the names of interfaces
that it would remove.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

from hotline_machines.supervisor import __main__ as supervisor


def remove(names: Iterable[str]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    print("removed", *names, flush=True)


if __name__ == "__main__":
    # An assignment to an imported function is an error for mypy.
    setattr(supervisor, "remove_interfaces", remove)  # noqa: B010
    sys.exit(supervisor.main())
