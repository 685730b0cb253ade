"""`python -m hotline_machines.supervisor`: the supervisor of a machine, which a task of dask starts.

Standard input has one line, a `SupervisorSpec`, and stays open for as long as the task's process lives.
Standard output gets one line of JSON, with the port that the supervisor listens at, or with an error.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from experiment.errors import PreflightError
from foundation.errors import HotlineError
from foundation.protocol.addressing import switch_interfaces
from hotline_machines.supervisor.remains import remove_interfaces, remove_namespaces
from hotline_machines.supervisor.server import SupervisorSpec, serve
from hotline_machines.wiring import host_interface
from topologies.run_lock import hold_run_lock

_LOCK_TIMEOUT_S, _LOCK_POLL_S = 5.0, 0.1


@contextmanager
def _hold_lock(interfaces: Sequence[str], ended_by: str | None) -> Iterator[None]:
    """Hold the lock of this machine's runs; wait for the supervisor of a run that has just ended."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold_run_lock(interfaces, ended_by=ended_by))
                break
            except PreflightError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOCK_POLL_S)
        yield


def main() -> int:
    # Ctrl-C is for dask's worker, whose end closes standard input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Only `serve` is ended by it; what comes before and after it is not interrupted.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line = sys.stdin.readline()
    try:
        spec = SupervisorSpec.model_validate_json(line)
        interfaces = switch_interfaces(spec.config.workers, spec.config.servers)
        if spec.ended_by is not None:
            # The workers of `hotline up` are in no namespace.
            interfaces += [host_interface(f"w{number}") for number in range(1, spec.config.workers + 1)]
        with _hold_lock(interfaces, spec.ended_by):
            remove_namespaces()
            try:
                serve(spec)
            finally:
                remove_namespaces()
                remove_interfaces(interfaces)
    except (HotlineError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
