"""The P4Runtime v1 server of the switch."""

from softswitch.p4runtime.service import P4RuntimeServer

__all__ = ["P4RuntimeServer"]
