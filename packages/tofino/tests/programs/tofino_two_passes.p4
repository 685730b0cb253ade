// The twin of the Tofino program in which an RPC of 32 lanes takes two passes. What a chip recirculates leaves by port 68.
#define V1MODEL
#define TWO_PASSES
#define SLOTS 64
#include "../../p4src/tofino/program.p4"
