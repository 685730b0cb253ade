// The project's own program, for RPCs of 16 lanes and as many callers as the Tofino program has.
#define LANES 16
#define CALLERS 1024
#include "../../p4src/hotset/hotset.p4"
