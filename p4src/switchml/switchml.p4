// SwitchML (Sapio et al., NSDI 2021): the switch adds up dense vectors, of which workers send chunk by chunk. Written from
// the rules that p4lang/p4app-switchML (b5c74a0) follows on a Tofino; nothing of it is copied.
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "headers.p4"
#include "parser.p4"
#include "checksums.p4"
#include "identify.p4"
#include "chunks.p4"
#include "bitmaps.p4"
#include "patience.p4"
#include "count.p4"
#include "exponents.p4"
#include "value.p4"
#include "next_step.p4"
#include "none/forward.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// The version is that of the project's own wire, which controllers ask for.
@pkginfo(name="switchml", version="2")
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
