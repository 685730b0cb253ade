"""The `--impair` option: loss, duplication and reordering in one direction of one port."""

from dataclasses import dataclass
from enum import Enum

from softswitch.errors import PortError

_FIELDS = {"loss": "loss", "dup": "duplicate", "reorder": "reorder"}
_SYNTAX = "PORT:in|out:loss=P,dup=P,reorder=P,seed=N"


class Direction(Enum):
    """Side of a port as the switch sees it: frames that arrive (in) or leave (out)."""

    IN = "in"
    OUT = "out"


@dataclass(frozen=True, slots=True)
class Impairment:
    """Probabilities from 0 to 1, each applied to every frame, and the seed of the random draws.

    A reordered frame is held until one to four later frames have passed it, or for 5 ms. The sequence of
    draws depends on seed, port and direction, but not on frames of other ports.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    seed: int = 1


def parse_impairment(text: str) -> tuple[tuple[int, Direction], Impairment]:
    """Parse an option such as `1:in:loss=0.05,dup=0.05,reorder=0.1,seed=7`. Raises PortError."""
    try:
        port_text, direction_text, settings = text.split(":")
    except ValueError:
        raise PortError(f"impairment {text!r}: expected {_SYNTAX}") from None
    if not port_text.isdecimal():
        raise PortError(f"impairment {text!r}: {port_text!r} is not a port number")
    if direction_text not in ("in", "out"):
        raise PortError(f"impairment {text!r}: direction is {direction_text!r}, expected 'in' or 'out'")
    probabilities: dict[str, float] = {}
    seed = 1
    for setting in settings.split(","):
        name, _, value = setting.partition("=")
        if name == "seed":
            seed = _parse_seed(text, value)
        elif name not in _FIELDS:
            raise PortError(f"impairment {text!r}: {name!r} is not one of loss, dup, reorder, seed")
        elif _FIELDS[name] in probabilities:
            raise PortError(f"impairment {text!r}: {name} is given twice")
        else:
            probabilities[_FIELDS[name]] = _parse_probability(text, name, value)
    return (int(port_text), Direction(direction_text)), Impairment(**probabilities, seed=seed)


def _parse_probability(text: str, name: str, value: str) -> float:
    try:
        probability = float(value)
    except ValueError:
        probability = -1.0
    if not 0.0 <= probability <= 1.0:
        raise PortError(f"impairment {text!r}: {name} is {value!r}, expected a probability from 0 to 1")
    return probability


def _parse_seed(text: str, value: str) -> int:
    if not value.isdecimal():
        raise PortError(f"impairment {text!r}: seed is {value!r}, expected an integer of 0 or more")
    return int(value)
