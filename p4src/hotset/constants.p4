// Generated from Python's declarations by tools/scripts/p4_constants.py. Change those, and run `make p4`.
// docs/design.md has the RPC's header.
#ifndef CONSTANTS_P4
#define CONSTANTS_P4

#ifndef LANES
#define LANES 32        // of one RPC: 4 (Tofino only), 8, 16, 32 or 64
#endif

#ifndef SLOTS
#define SLOTS 4096      // cells of one lane's register, and entries of its table
#endif
#ifndef CALLERS
#define CALLERS 8192    // callers that the switch can tell apart at a time
#endif
// Each caller has 2^WINDOW_BITS sequence-number slots.
const bit<8> WINDOW_BITS = 6;

const bit<16> HOTLINE_PORT = 5001;      // of UDP

enum bit<8> Op {
    PULL    = 1,
    PUSH    = 2,
    EMPTY   = 3,
    CONTROL = 4
}

// Bits of the field `flags`.
const bit<16> FLAG_RESPONSE = 0x1;
const bit<16> FLAG_KEYS     = 0x2;
const bit<16> FLAG_VALUES   = 0x4;
const bit<16> FLAG_SET      = 0x8;
const bit<16> FLAG_FIRST    = 0x10;
const bit<16> FLAG_SECOND   = 0x20;
const bit<16> FLAG_REPLAY   = 0x40;

// The lanes of a worker hit if the key is hot. A privileged caller (a parameter server that moves a key, or
// the controller that reads one) also reaches entries that are on their way in or out.
enum bit<8> CallerKind {
    WORKER     = 0,
    PRIVILEGED = 1
}

// Indices of counter `rpcs`.
enum bit<32> RpcOutcome {
    ANSWERED   = 0,
    FORWARDED  = 1,
    RELAYED    = 2,
    DUPLICATES = 3
}
const bit<32> RPC_OUTCOMES = 4;

// Indices of each bank's counter `row_stats`.
enum bit<32> LaneEvent {
    HIT      = 0,
    MISS     = 1,
    OVERFLOW = 2
}
const bit<32> LANE_EVENTS = 3;

#endif
