"""Hashes, checksums, and lists of fields."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.hashing import ALGORITHMS, Algorithm, Crc
from softswitch.ir.expressions import Expression, FieldRef


@dataclass(frozen=True, slots=True)
class SizedConstant:
    """A literal of `width` bits among the inputs of a calculation or the values of a digest."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class WholeHeader:
    """All fields of a header, in order."""

    header: int


CalculationInput = FieldRef | SizedConstant | WholeHeader


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over inputs joined bit by bit and padded with 0 to whole bytes.

    Inputs of invalid headers are left out. `algorithm` is BMv2's name, one of `hashing.ALGORITHMS`. With
    `payload` the bytes that the parser did not take follow.
    """

    name: str
    algorithm: str
    inputs: tuple[CalculationInput, ...]
    payload: bool = False
    location: str = ""
    custom: Crc | None = None
    """What a custom CRC computes, where it has been told other parameters than BMv2's initial ones."""

    @property
    def function(self) -> Algorithm:
        """What is computed over the bytes."""
        return self.custom or ALGORITHMS[self.algorithm]


@dataclass(frozen=True, slots=True)
class Checksum:
    """A calculation that is stored to or compared with `target` where `condition` holds."""

    target: FieldRef
    calculation: int
    condition: Expression


@dataclass(frozen=True, slots=True)
class FieldList:
    """What a clone, resubmit or recirculate keeps, or what a digest sends."""

    id: int
    name: str
    values: tuple[FieldRef | SizedConstant, ...]
