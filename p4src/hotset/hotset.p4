// The hot set: aggregates the hot parameters of sparse training in the switch, and proxies its connections.
#include <core.p4>
#include <v1model.p4>

#include "constants.p4"
#include "repeat.p4"
#include "headers.p4"
#include "parser.p4"
#include "checksums.p4"
#include "validate.p4"
#include "identify.p4"
#include "lane_lookup.p4"
#include "exactly_once.p4"
#include "lane_aggregate.p4"
#include "readdress.p4"
#include "forward.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// The version is the wire's: a controller tells by it whether agents of its own can be understood here.
@pkginfo(name="hotset", version="2")
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(),
         HotlineComputeChecksum(), HotlineDeparser()) main;
