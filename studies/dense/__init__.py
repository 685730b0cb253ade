"""Studies of dense training: is the network its bottleneck [BOTTLENECK], which gradients to merge [ASC]."""

from __future__ import annotations

from foundation.errors import HotlineError


class DenseError(HotlineError):
    """A setting, model or script that cannot be used; the text names the value and what was expected."""
