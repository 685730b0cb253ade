"""RPCs without lanes, one worker at a time: what switch, kernel and agents cost without any work."""

from __future__ import annotations

from foundation.designs.arms import baseline_of
from topologies.agents import call_all
from topologies.session import RealSession

_PATIENCE_S, _PATIENCE_OF_AN_RPC_S = 30.0, 0.1


async def measure_emulator(session: RealSession) -> None:
    """As many as are configured, for the arm that others are compared with."""
    if not session.config.empty_rpcs:
        return
    command = {
        "cmd": "empty",
        "job": baseline_of(session.config.arms).job,
        "count": session.config.empty_rpcs,
    }
    patience = _PATIENCE_S + _PATIENCE_OF_AN_RPC_S * session.config.empty_rpcs
    with session.reporter.phase("empty RPCs", len(session.workers)) as phase:
        for done, worker in enumerate(session.workers, start=1):
            await call_all([worker], command, patience)
            phase.update(done)
