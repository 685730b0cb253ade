"""Where BMv2 has no end and this switch has one, in the interpreter and in compiled code alike."""

from __future__ import annotations

MAX_PARSER_STEPS = 4096
"""States that the parser visits for one packet, so that one that takes no bytes ends."""

MAX_PASSES = 1024
"""Passes through ingress or egress that one frame causes; what is left then is dropped."""

MAX_RECIRCULATED_BYTES = 1 << 20
"""Bytes of recirculated frames that one frame causes; a frame beyond is dropped."""

MAX_EXPRESSION_BITS = 4096
"""Bits that an expression may need; a shift by as many leaves none of the value."""

GROUP_SHARE = 64
"""All groups of a profile together may list this many members for each member that the profile can have."""

MAX_REPLICAS = 1 << 16
"""Replicas that all multicast groups and clone sessions together may have."""

MAX_LOOPS = 65_536
"""Jumps back in one run of an action, so that a `for` without end is ended with its packet."""
