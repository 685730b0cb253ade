from __future__ import annotations

from dataclasses import dataclass

from softswitch.hashing import ALGORITHMS, Algorithm, Crc
from softswitch.ir.expressions import Expression, FieldRef


@dataclass(frozen=True, slots=True)
class SizedConstant:
    """A literal of `width` bits as an input of a calculation or a value of a digest."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class WholeHeader:
    header: int


CalculationInput = FieldRef | SizedConstant | WholeHeader


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over inputs that are concatenated and padded with zero bits to whole bytes.

    Inputs of invalid headers are omitted. `algorithm` is BMv2's name, one of `hashing.ALGORITHMS`. With
    `payload`, the bytes that the parser did not consume follow.
    """

    name: str
    algorithm: str
    inputs: tuple[CalculationInput, ...]
    payload: bool = False
    location: str = ""
    custom_crc: Crc | None = None
    """Parameters that replace BMv2's for a custom CRC; None keeps those of `hashing.ALGORITHMS`."""

    @property
    def function(self) -> Algorithm:
        return self.custom_crc or ALGORITHMS[self.algorithm]


@dataclass(frozen=True, slots=True)
class Checksum:
    """A calculation whose result is stored to, or compared with, `target` if `condition` holds."""

    target: FieldRef
    calculation: int  # index in `Program.calculations`
    condition: Expression


@dataclass(frozen=True, slots=True)
class FieldList:
    id: int
    name: str
    values: tuple[FieldRef | SizedConstant, ...]
