"""Costs of hosts that `make costs` has fitted to the bench, in ns (`costs.HostCosts`).

Measured on 2026-11-27 at commit 1be5bff4, on 2 cores of Intel(R) Xeon(R) Processor,
Linux 6.18.44-fc-v657.
"""

from __future__ import annotations

ENCODE_NS = 801
SEND_NS = 2_782
BEGIN_NS = 27_801
SERVE_NS = 43
