"""Studies of dense training: whether the network limits it [BOTTLENECK], which gradients to merge [ASC]."""

from __future__ import annotations

from foundation.errors import HotlineError


class DenseError(HotlineError):
    """A setting, model or script that cannot be used; the text names the value and what was expected."""
