// SwitchML (Sapio et al., NSDI 2021): the switch adds up dense vectors, which workers send chunk by chunk. Written from
// the rules that p4lang/p4app-switchML (b5c74a0) follows on a Tofino; no text of it is copied.
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
#include "stale_chunk_filter.p4"
#include "bitmaps.p4"
#include "slot_timeout.p4"
#include "count.p4"
#include "exponents.p4"
#include "value.p4"
#ifdef HAS_CUT_BITS
#include "cut_bits.p4"
#endif
#include "next_step.p4"
#include "common/forward.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// The version is that of the RPCs between agents. A controller compares it with its own before it writes anything.
#ifndef PROGRAM_NAME
#define PROGRAM_NAME "switchml"
#endif
@pkginfo(name=PROGRAM_NAME, version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
