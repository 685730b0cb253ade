"""References to named tuples of arrays: functions take one pointer, without reference counting.

Numba passes a tuple as all words of all its arrays in every call (five hundred for a simulation), and
counts a reference at each access. In code of many small functions this takes most of the time. A function
that begins with `state = as_ref(state)` reads only the fields it uses; the rest of its source is unchanged.
Without numba, a reference is the tuple itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nativekit.installed import HAS_NUMBA

if TYPE_CHECKING or HAS_NUMBA:
    from nativekit.machine_references import as_ref, pinned_ref, row, unwrap_ref, write_words
else:
    from nativekit.interpreted import as_ref, pinned_ref, row, unwrap_ref, write_words

__all__ = ["as_ref", "pinned_ref", "row", "unwrap_ref", "write_words"]
