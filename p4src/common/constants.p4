// Generated from Python's declarations by tools/scripts/p4_constants.py. Change those, and run `make p4`.
#ifndef COMMON_CONSTANTS_P4
#define COMMON_CONSTANTS_P4

// The version of the RPCs between agents, as a field and in @pkginfo.
const bit<8> WIRE_VERSION = 4;
#define WIRE_VERSION_TEXT "4"

const bit<9> CPU_PORT = 255;

#define MAX_SPINES 8        // of a network of several switches

#endif
