// The twin of the Tofino program with as many lanes as agents have, for schedules of faults.
#define V1MODEL
#define LANES 32
#include "../../p4src/tofino/program.p4"
