"""Comparison of all-reduce schemes and the hot set, simulated on the same links with the same vectors."""

from __future__ import annotations

from foundation.errors import HotlineError


class AllReduceError(HotlineError): ...
