// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
// Sizes and codes are those of p4lang/p4app-switchML (b5c74a0).
#ifndef SWITCHML_CONSTANTS_P4
#define SWITCHML_CONSTANTS_P4

#ifndef LANES
#define LANES 64        // values of a packet
#define SIZE_CODE 1
#endif

// Slots of the pool, each with an entry in both of its sets.
const bit<32> SLOTS = 8192;

const bit<16> SWITCHML_PORT = 0xbee0;   // of UDP

// What the first byte of a packet says: a packet of SwitchML, with 4 * LANES bytes of values.
const bit<4> KIND = 1;
const bit<3> SIZE = SIZE_CODE;

#endif
