// The twin of the Tofino program for rows of 16 values, and fewer callers.
#define V1MODEL
#define LANES 32
#define DIM 16
#define CALLER_BITS 4
#include "../../p4src/tofino/program.p4"
