"""Counters, meters and registers; what is done to them is among the `statements`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """An indirect counter array."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Meter:
    """An indirect array of two-rate three-colour meters (RFC 2698)."""

    name: str
    size: int
    counts_bytes: bool


@dataclass(frozen=True, slots=True)
class Register:
    """A register array of `bit<width>`."""

    name: str
    size: int
    width: int
