// The hot set: aggregates the hot parameters of sparse training in the switch, and proxies the workers' connections.
#include <core.p4>
#include <v1model.p4>

#include "common/constants.p4"
#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"
#include "banks_of_rows.p4"
#include "rpc.p4"
#include "headers.p4"
#include "common/udp_parser.p4"
#include "parser.p4"
#include "common/checksums.p4"
#include "common/drop.p4"
#include "validate.p4"
#include "common/bundle.p4"
#include "identify.p4"
#include "pass_on.p4"
#include "lane_lookup.p4"
#include "exactly_once.p4"
#include "bank.p4"
#include "readdress.p4"
#include "common/forward.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// A controller compares this version with its own before it writes anything.
@pkginfo(name="hotset", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(),
         HotlineComputeChecksum(), HotlineDeparser()) main;
