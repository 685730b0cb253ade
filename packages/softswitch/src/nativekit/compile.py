"""Decorators of compiled functions, and without numba the functions as plain Python.

Numba needs no C toolchain at run time, and compiled functions run without the GIL. Integers are signed 64-bit
everywhere, addresses and lengths included: write `int64(x)` on every read of another type, since numba makes
a float of `uint64 + int64`, and on a literal that may become an argument, since numba may compile a function
again for a literal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nativekit.installed import HAS_NUMBA

if TYPE_CHECKING or HAS_NUMBA:
    from nativekit.machine_code import (
        cached_entry_point,
        carray,
        compiled,
        inlined,
        intrinsic,
        llvm_intrinsic,
    )
else:
    from nativekit.interpreted import (
        cached_entry_point,
        carray,
        compiled,
        inlined,
        intrinsic,
        llvm_intrinsic,
    )

__all__ = ["cached_entry_point", "carray", "compiled", "inlined", "int64", "intrinsic", "llvm_intrinsic"]

int64 = cast(Callable[[Any], int], np.int64)  # of `Any`, since numba converts every number
