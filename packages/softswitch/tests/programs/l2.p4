// One exact table: what a look-up, a table write and an entry's memory cost.
#include <core.p4>
#include <v1model.p4>

#define HOSTS 1048576

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t {}

parser L2Parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control L2Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control L2Ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }

    action forward(bit<9> port) {
        std.egress_spec = port;
    }

    table hosts {
        key = { hdr.ethernet.dst_addr: exact @name("mac"); }
        actions = { forward; drop; }
        const default_action = drop();
        size = HOSTS;
    }

    apply {
        hosts.apply();
    }
}

control L2Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control L2Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control L2Deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(L2Parser(), L2Verify(), L2Ingress(), L2Egress(), L2Update(), L2Deparser()) main;
