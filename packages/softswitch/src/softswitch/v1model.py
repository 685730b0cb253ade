"""Constants of v1model and simple_switch, as in v1model.p4, core.p4 and BMv2's simple_switch.h."""

from __future__ import annotations

from enum import Enum, IntEnum

PORT_BITS = 9
PORT_NUMBERS = 1 << PORT_BITS
DROP_PORT = 511
"""simple_switch's drop port: a packet with this `egress_spec` is dropped."""
EGRESS_SPEC_BEFORE_EGRESS = (DROP_PORT + 1) % PORT_NUMBERS
"""`egress_spec` at the beginning of egress: 0, as BMv2 sets it to drop port + 1, so that they differ."""

MULTICAST_GROUPS = 1 << 16
"""Number of values of `mcast_grp`, a bit<16>; 0 means no group."""
REPLICA_INSTANCES = 1 << 16
"""Number of values of `egress_rid`, a bit<16>."""
CLONE_SESSIONS = 1 << 15
"""Number of clone sessions; BMv2 reduces larger session numbers modulo this value."""
MAX_PRIORITY_QUEUES = 8
"""Maximum number of queues of a port: a packet's `priority` has three bits."""

STANDARD_METADATA = "standard_metadata"


class Standard(str, Enum):  # fields of `standard_metadata`
    CHECKSUM_ERROR = "checksum_error"
    DEQ_QDEPTH = "deq_qdepth"
    DEQ_TIMEDELTA = "deq_timedelta"
    EGRESS_GLOBAL_TIMESTAMP = "egress_global_timestamp"
    EGRESS_PORT = "egress_port"
    EGRESS_RID = "egress_rid"
    EGRESS_SPEC = "egress_spec"
    ENQ_QDEPTH = "enq_qdepth"
    ENQ_TIMESTAMP = "enq_timestamp"
    INGRESS_GLOBAL_TIMESTAMP = "ingress_global_timestamp"
    INGRESS_PORT = "ingress_port"
    INSTANCE_TYPE = "instance_type"
    MCAST_GRP = "mcast_grp"
    PACKET_LENGTH = "packet_length"
    PARSER_ERROR = "parser_error"
    PRIORITY = "priority"

    __hash__ = str.__hash__  # that of `Enum` is a function in Python


class InstanceType(IntEnum):
    """Values of `standard_metadata.instance_type`, as in simple_switch.h."""

    NORMAL = 0
    INGRESS_CLONE = 1
    EGRESS_CLONE = 2
    RECIRCULATED = 4
    REPLICATED = 5
    RESUBMITTED = 6


class CoreError(str, Enum):
    """Errors of the core library that the switch itself raises in a parser."""

    NO_ERROR = "NoError"
    PACKET_TOO_SHORT = "PacketTooShort"
    STACK_OUT_OF_BOUNDS = "StackOutOfBounds"
    HEADER_TOO_SHORT = "HeaderTooShort"
    PARSER_INVALID_ARGUMENT = "ParserInvalidArgument"


class Colour(IntEnum):
    GREEN = 0
    YELLOW = 1
    RED = 2


VARBIT_BITS_WIDTH = 32
"""Bits of the `int` to which BMv2 clamps the length of a varbit field in bits."""
