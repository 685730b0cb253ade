// The twin of the Tofino program: the same controls on v1model.
#define V1MODEL
#define LANES 16
#include "../../p4src/tofino/program.p4"
