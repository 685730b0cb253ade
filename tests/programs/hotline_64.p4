// The project's own program, for RPCs of 64 lanes.
#define LANES 64
#include "../../p4src/hotset/hotset.p4"
