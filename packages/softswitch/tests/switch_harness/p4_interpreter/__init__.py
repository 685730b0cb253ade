"""An interpreter of checked P4_16 syntax trees for v1model: plain, slow, and independent of lowering.

It follows the specification of P4_16, version 1.2.5, and is what compiled programs are compared with.
"""

from switch_harness.p4_interpreter.switch import TreeSwitch
from switch_harness.p4_interpreter.tables import TableEntry

__all__ = ["TableEntry", "TreeSwitch"]
