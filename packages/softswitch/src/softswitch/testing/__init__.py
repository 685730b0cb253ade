"""Unit tests of P4 programs: a program with its entries in this process, without a switch, ports or root."""

from softswitch.testing.coverage import Coverage
from softswitch.testing.mask import Mask
from softswitch.testing.switch import Switch

__all__ = ["Coverage", "Mask", "Switch"]
