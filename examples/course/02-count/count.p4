// Count the updates of each key, and remember the largest value.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header hot_t {
    bit<8>  op;       // 1: an update of a worker, 2: a result of the switch
    bit<8>  version;
    bit<16> worker;
    bit<32> key;
    bit<32> value;
}

struct headers_t {
    ethernet_t ethernet;
    hot_t      hot;
}

struct metadata_t {}

#define KEYS 64

parser HotParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x88B5: parse_hot;
            default: accept;
        }
    }

    state parse_hot {
        packet.extract(hdr.hot);
        transition accept;
    }
}

control HotVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control HotIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(KEYS, CounterType.packets_and_bytes) frames;
    register<bit<32>>(KEYS) largest;

    apply {
        std.egress_spec = 1;
        if (!hdr.hot.isValid() || hdr.hot.key >= KEYS) {
            mark_to_drop(std);
        } else {
            // TODO 1: count the frame in `frames`, at the index of its key.
            // TODO 2: read the key's cell of `largest`, and write the value if it is larger.
        }
    }
}

control HotEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control HotUpdate(inout headers_t hdr, inout metadata_t meta) { apply {} }

control HotDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.hot);
    }
}

V1Switch(HotParser(), HotVerify(), HotIngress(), HotEgress(), HotUpdate(), HotDeparser()) main;
