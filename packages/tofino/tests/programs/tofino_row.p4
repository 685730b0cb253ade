// The twin of the Tofino program for rows of 16 values.
#define V1MODEL
#define LANES 32
#define DIM 16
#include "../../p4src/tofino/program.p4"
