"""A worker and a parameter server in plain Python with Scapy, to read and to debug (docs/agents.md)."""

from __future__ import annotations

DESIGNS = ("hotset", "none")
"""Names of the designs whose protocol these agents speak."""
