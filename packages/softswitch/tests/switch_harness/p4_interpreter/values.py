"""Storage of P4 values, and values in it that nothing has defined.

A scalar's value is an int, a bool, or the name of a member of an enum or of `error`; None is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from softswitch.p4 import types
from softswitch.p4.scopes import Facts
from softswitch.p4.unify import fields_of

Scalar = int | bool | str


@dataclass(slots=True, eq=False)
class Header:
    """A header; its validity is None where it is undefined."""

    parts: dict[str, Storage]
    valid: bool | None = False

    def set_valid(self) -> None:
        if not self.valid:
            for part in self.parts.values():
                undefine(part)
        self.valid = True


@dataclass(slots=True, eq=False)
class Cell:
    """A scalar. One of a header is defined only while that is valid (specification, §8.25)."""

    owner: Header | None = None
    raw: Scalar | None = None

    @property
    def value(self) -> Scalar | None:
        return self.raw if self.owner is None or self.owner.valid else None

    @value.setter
    def value(self, value: Scalar | None) -> None:
        if self.owner is None or self.owner.valid:
            self.raw = value


@dataclass(slots=True, eq=False)
class Struct:
    """A struct, or a tuple with the names 0, 1, and so on."""

    parts: dict[str, Storage]


@dataclass(slots=True, eq=False)
class Stack:
    elements: list[Storage]
    next_index: int = 0


@dataclass(slots=True, eq=False)
class Slice:
    """Bits of a place that a value is assigned to."""

    base: Place
    high: int
    low: int
    width: int
    """Bits of the base."""
    is_signed: bool
    fill: Fill


Storage = Cell | Struct | Header | Stack
Compound = Struct | Header | Stack
Place = Storage | Slice
Value = Scalar | Compound | None


@dataclass(slots=True)
class Fill:
    """What undefined values read as: zeros, ones, or bits that a seed makes."""

    seed: int
    reads: int = 0
    """Number of undefined values that were read."""
    _random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def bits(self, width: int) -> int:
        self.reads += 1
        if self.seed == 0 or width == 0:
            return 0
        if self.seed == 1:
            return (1 << width) - 1
        return self._random.getrandbits(1 + self._random.randrange(width))  # often a small number


def uninitialised(given: types.Type, facts: Facts, owner: Header | None = None) -> Storage:
    """Return new storage of a type: scalars are undefined, and headers are invalid."""
    given = types.base_of(given)
    match given:
        case types.Struct(kind="header"):
            header = Header({})
            header.parts = {n: uninitialised(t, facts, header) for n, t in fields_of(given, facts).items()}
            return header
        case types.Struct():
            return Struct({n: uninitialised(t, facts, owner) for n, t in fields_of(given, facts).items()})
        case types.Tuple(elements):
            return Struct({str(i): uninitialised(t, facts) for i, t in enumerate(elements)})
        case types.Stack(element, size):
            return Stack([uninitialised(element, facts) for _ in range(size)])
    return Cell(owner)


def undefine(storage: Storage) -> None:
    """Make all scalars of a part of a header undefined."""
    if isinstance(storage, Cell):
        storage.raw = None
    elif isinstance(storage, Struct):
        for part in storage.parts.values():
            undefine(part)


def zero(storage: Storage, given: types.Type, facts: Facts) -> None:
    """Set the scalars outside of headers to 0."""
    given = types.base_of(given)
    if isinstance(storage, Cell):
        if given == types.BOOL:
            storage.value = False
        elif given == types.ERROR:
            storage.value = facts.errors[0]
        elif isinstance(given, types.Enum) and given.underlying is None:
            storage.value = given.declaration.members[0].name
        else:
            storage.value = 0
    elif isinstance(storage, Struct):
        kinds = element_types(given, facts)
        for name, part in storage.parts.items():
            zero(part, kinds[name], facts)


def element_types(given: types.Type, facts: Facts) -> dict[str, types.Type]:
    """Return the types of the parts of a struct, header or tuple."""
    given = types.base_of(given)
    if isinstance(given, types.Tuple):
        return {str(i): each for i, each in enumerate(given.elements)}
    return fields_of(given, facts)


def copied(storage: Storage, owner: Header | None = None) -> Storage:
    """Return new storage with the same values, of which undefined ones stay so."""
    match storage:
        case Cell():
            return Cell(owner, storage.value)
        case Struct(parts):
            return Struct({name: copied(part, owner) for name, part in parts.items()})
        case Header(parts, valid):
            made = Header({}, valid)
            made.parts = {name: copied(part, made) for name, part in parts.items()}
            return made
        case Stack(elements, next_index):
            return Stack([copied(element) for element in elements], next_index)


def store(place: Place, value: Value) -> None:
    """Copy a value, which has the type of the place, into it."""
    match place, value:
        case Slice(), _:
            _store_slice(place, value)
        case Cell(), _:
            assert value is None or isinstance(value, int | bool | str), value
            place.value = value
        case Struct(parts), Struct(others):
            for name, part in parts.items():
                store(part, load(others[name]))
        case Header(parts), Header(others, valid):
            place.valid = valid
            for name, part in parts.items():
                store(part, load(others[name]))
        case Stack(elements), Stack(others):
            place.next_index = value.next_index
            for element, other in zip(elements, others, strict=True):
                store(element, load(other))
        case _:
            raise AssertionError(f"expected a value of the type of the place {place}, got {value}")


def load(place: Storage) -> Value:
    """Return the value in storage, which is no copy if it has parts."""
    return place.value if isinstance(place, Cell) else place


def _store_slice(place: Slice, value: Value) -> None:
    if isinstance(place.base, Slice):
        inner = place.base
        high, low = inner.low + place.high, inner.low + place.low
        _store_slice(Slice(inner.base, high, low, inner.width, inner.is_signed, place.fill), value)
        return
    assert isinstance(place.base, Cell)
    base, width = place.base.value, place.high - place.low + 1
    old = base if isinstance(base, int) else place.fill.bits(place.width)
    new = value if isinstance(value, int) else place.fill.bits(width)
    mask = ((1 << width) - 1) << place.low
    bits = (old & ((1 << place.width) - 1)) & ~mask | new << place.low & mask
    place.base.value = reduced(bits, place.width, place.is_signed)


def reduced(value: int, width: int, is_signed: bool) -> int:
    """Return an integer modulo 2 ** width, in the range of `int<width>` if it is signed."""
    value %= 1 << width
    if is_signed and width and value >= 1 << (width - 1):
        value -= 1 << width
    return value
