"""Exceptions of the switch: everything a user may be told derives from `SwitchError`."""


class SwitchError(Exception):
    """Base of all errors that the switch reports; its text is one clear line."""


class ProgramError(SwitchError):
    """The BMv2 JSON cannot be read as a program (missing part, wrong type, dangling reference)."""


class UnsupportedConstruct(ProgramError):
    """A construct that this switch does not implement, with the P4 source line that p4c recorded."""

    def __init__(self, construct: str, where: str = "") -> None:
        super().__init__(f"{where + ': ' if where else ''}{construct} is not supported by softswitch")
        self.construct = construct
        self.where = where


class StateError(SwitchError):
    """A control-plane operation that the pipeline's state does not allow."""


class EntryExists(StateError):
    """INSERT of an entry whose match key is already in the table."""


class EntryMissing(StateError):
    """MODIFY or DELETE of an entry that is not in the table."""


class TableFull(StateError):
    """INSERT into a table that holds as many entries as its declared size."""
