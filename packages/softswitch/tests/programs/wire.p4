// No P4 work: every frame leaves by one port, unparsed. What is left is what a packet costs at least.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser WireParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition accept;
    }
}

control WireVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control WireIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
    }
}

control WireEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control WireUpdate(inout headers_t hdr, inout metadata_t meta) { apply {} }
control WireDeparser(packet_out packet, in headers_t hdr) { apply {} }

V1Switch(WireParser(), WireVerify(), WireIngress(), WireEgress(), WireUpdate(), WireDeparser()) main;
