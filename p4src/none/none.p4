// Servers only: the switch forwards by destination address, as any switch does.
#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "parser.p4"
#include "checksums.p4"
#include "forward.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

// The version is the wire's: a controller tells by it whether agents of its own can be understood here.
@pkginfo(name="none", version="2")
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
