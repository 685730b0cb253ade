"""Entries of tables in the memory that compiled code and control plane share.

`records` the hash index and the records · `ranked` masks, ranges and ranks · `write` batches of writes.
"""

from softswitch.state.records import COLUMNS, describe
from softswitch.state.write import (
    DELETE,
    DONE,
    EXISTS,
    FULL,
    INSERT,
    MISSING,
    MODIFY,
    find_record,
    write_entries,
)

__all__ = [
    "COLUMNS",
    "DELETE",
    "DONE",
    "EXISTS",
    "FULL",
    "INSERT",
    "MISSING",
    "MODIFY",
    "describe",
    "find_record",
    "write_entries",
]
