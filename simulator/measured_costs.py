"""Costs of hosts that `make costs` has fitted to the bench, in ns (`simulator.costs.HostCosts`).

Measured on 2026-11-26 at commit 6791f2a1, on 2 cores of Intel Xeon,
Linux 6.18.
"""

from __future__ import annotations

ENCODE_NS = 592
SEND_NS = 2_604
BEGIN_NS = 27_000
SERVE_NS = 68
