// Generated from Python's declarations by scripts/p4_constants.py. Change those, and run `make p4`.
#ifndef ATP_CONSTANTS_P4
#define ATP_CONSTANTS_P4

#define LANES 62        // values of a packet

const bit<32> CELLS = 20000;

const bit<16> ATP_PORT = 0x0700;      // of UDP

#endif
