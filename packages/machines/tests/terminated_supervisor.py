"""`python -m packages.machines.tests.terminated_supervisor`: a supervisor that is terminated as it removes.

It gets SIGTERM, as from `hotline down`, while it removes what others have left, before it serves, and while
it removes what it has made. It writes the names of interfaces that it would remove.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

from hotline_machines.supervisor import __main__ as supervisor
from hotline_machines.supervisor import remains


def remove_namespaces() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    remains.remove_namespaces()


def remove_interfaces(names: Iterable[str]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    print("removed", *names, flush=True)


if __name__ == "__main__":
    # Assignments to imported functions are errors for mypy.
    setattr(supervisor, "remove_namespaces", remove_namespaces)  # noqa: B010
    setattr(supervisor, "remove_interfaces", remove_interfaces)  # noqa: B010
    sys.exit(supervisor.main())
