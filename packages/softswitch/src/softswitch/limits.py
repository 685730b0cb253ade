"""Limits of this switch where BMv2 has none; interpreter and compiled code share them."""

from __future__ import annotations

MAX_PARSER_STEPS = 4096
"""States that the parser visits for one packet, so that a cycle that consumes nothing ends."""

MAX_PASSES = 1024
"""Passes through ingress or egress that one frame may cause; remaining packets are dropped."""

MAX_RECIRCULATED_BYTES = 1 << 20
"""Bytes of recirculated frames that one frame may cause; a frame beyond is dropped."""

MAX_EXPRESSION_BITS = 4096
"""Bits that an expression may need; a shift by as many or more shifts out all bits."""

MAX_VALUE_BITS = 8192
"""Bits of a field, parameter, register, constant or lookahead; a wider one would take minutes to compile."""

MAX_HEADER_BYTES = 1 << 17
"""Bytes of a header with a variable-length field, at which BMv2 and p4c have no limit; frames have 65,535."""

GROUP_MEMBERS_PER_MEMBER = 64
"""Members in all groups of an action profile together, as a multiple of the profile's size."""

MAX_REPLICAS = 1 << 16
"""Replicas of all multicast groups and clone sessions."""

MAX_BACKWARD_JUMPS = 65_536
"""Backward jumps in one run of an action, so that an endless `for` ends, and drops its packet."""
