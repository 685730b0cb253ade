// Design `exact`: SwitchML's program with a cut bit for each value. The switch adds words and knows no floats: a value is
// two of them, its lanes.
#define HAS_CUT_BITS
#define PROGRAM_NAME "exact"
#include "../switchml/switchml.p4"
