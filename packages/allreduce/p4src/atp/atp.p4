// ATP (Lao et al., NSDI 2021): best-effort aggregation of dense vectors for several jobs. Written from the rules that
// in-ATP/ATP (ddca27f) follows on a Tofino; no text of it is copied.
#include <core.p4>
#include <v1model.p4>

#include "common/constants.p4"
#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"
#include "headers.p4"
#include "common/udp_parser.p4"
#include "parser.p4"
#include "common/checksums.p4"
#include "common/drop.p4"
#include "identify.p4"
#include "claim.p4"
#include "bitmaps.p4"
#include "congestion.p4"
#include "count.p4"
#include "value.p4"
#include "common/forward.p4"
#include "next_step.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// The version is that of the RPCs between agents. A controller compares it with its own before it writes anything.
@pkginfo(name="atp", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
