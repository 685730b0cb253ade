// Forward a frame by the destination's MAC address.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t {}

parser FrameParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        // TODO 1: extract the Ethernet header.
        transition accept;
    }
}

control FrameVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control FrameIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }

    action forward(bit<9> port) {
        // TODO 2: send the frame out of this port.
    }

    table hosts {
        key = { hdr.ethernet.dst_addr: exact @name("mac"); }
        actions = { forward; drop; }
        const default_action = drop();
        size = 1024;
    }

    apply {
        hosts.apply();
        // TODO 3: drop a frame whose host is at the port from which it came.
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control FrameUpdate(inout headers_t hdr, inout metadata_t meta) { apply {} }

control FrameDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(FrameParser(), FrameVerify(), FrameIngress(), FrameEgress(), FrameUpdate(), FrameDeparser()) main;
