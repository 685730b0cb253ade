// Forwards every frame by its destination address. The servers alone hold the parameters.
#include <core.p4>
#include <v1model.p4>

#include "common/headers.p4"
#include "common/constants.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t {
    bool has_route;
}

#include "common/udp_parser.p4"
#include "common/forward.p4"
#include "common/bundle.p4"

parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    UdpParser() udp_parser;
    bit<16> src_port;
    bit<16> dst_port;

    state start {
        udp_parser.apply(packet, hdr.ethernet, hdr.ipv4, hdr.udp, src_port, dst_port);
        transition accept;
    }
}

// No field that a checksum covers is modified.
control HotlineVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Forward() forward;
    ToBundle() to_bundle;

    apply {
        forward.apply(hdr, meta, std);
        to_bundle.apply(hdr, std);
    }
}

control HotlineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control HotlineComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control HotlineDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

@pkginfo(name="none", version=WIRE_VERSION_TEXT)
V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(), HotlineComputeChecksum(),
         HotlineDeparser()) main;
