// Hot parameters whose optimiser is at the servers. The switch publishes copies of the values, and adds up gradients
// until a server collects them. All code but that of the banks is shared with design hotset.
#include <core.p4>
#include <v1model.p4>

#define PUBLISHES
#include "common/constants.p4"
#include "common/headers.p4"
#include "hotset/constants.p4"
#include "common/repeat.p4"
#include "hotset/banks_of_rows.p4"
#include "hotset/rpc.p4"
#include "hotset/headers.p4"
#include "common/udp_parser.p4"
#include "hotset/parser.p4"
#include "common/checksums.p4"
#include "common/drop.p4"
#include "hotset/validate.p4"
#include "common/bundle.p4"
#include "hotset/identify.p4"
#include "hotset/pass_on.p4"
#include "hotset/lane_lookup.p4"
#include "hotset/exactly_once.p4"
#include "bank.p4"
#include "hotset/readdress.p4"
#include "common/forward.p4"
#include "hotset/ingress.p4"
#include "hotset/egress.p4"
#include "hotset/deparser.p4"

// A controller compares this version with its own before it writes anything.
@pkginfo(name="collect", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(),
         HotlineComputeChecksum(), HotlineDeparser()) main;
