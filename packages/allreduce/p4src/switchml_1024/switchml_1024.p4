// SwitchML with 1,024 bytes of values in a packet. The published program passes such a packet several times; here every
// value has a register.
#define LANES 256
#define SIZE_CODE 3
#define PROGRAM_NAME "switchml-1024"
#include "repeat_256.p4"
#include "../switchml/switchml.p4"
