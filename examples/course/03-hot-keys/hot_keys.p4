// A count-min sketch: report keys that are updated often, in little memory.
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

struct report_t {
    bit<32> key;
    bit<32> estimate;
}

struct metadata_t { report_t report; }

#define WIDTH 256

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
    register<bit<32>>(WIDTH) row_0;
    register<bit<32>>(WIDTH) row_1;
    register<bit<32>>(1) threshold;  // written by the controller

    apply {
        std.egress_spec = 1;
        if (hdr.hot.isValid()) {
            bit<32> limit;
            threshold.read(limit, 0);
            bit<32> estimate = 0;
            // TODO 1: hash the key to a cell of row_0 (HashAlgorithm.crc32), and add 1 to that cell.
            // TODO 2: do the same in row_1 with another hash (crc16); the estimate is the smaller one of both counts.
            // TODO 3: report the key once its estimate has reached the limit: digest(1, report_t { key, estimate }).
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
