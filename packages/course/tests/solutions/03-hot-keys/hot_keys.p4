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
            bit<32> cell_0;
            bit<32> cell_1;
            bit<32> count_0;
            bit<32> count_1;
            hash(cell_0, HashAlgorithm.crc32, 32w0, { hdr.hot.key }, 32w256);
            hash(cell_1, HashAlgorithm.crc16, 32w0, { hdr.hot.key }, 32w256);
            row_0.read(count_0, cell_0);
            row_1.read(count_1, cell_1);
            count_0 = count_0 + 1;
            count_1 = count_1 + 1;
            row_0.write(cell_0, count_0);
            row_1.write(cell_1, count_1);
            estimate = count_0 < count_1 ? count_0 : count_1;
            if (estimate >= limit) {
                meta.report.key = hdr.hot.key;
                meta.report.estimate = estimate;
                digest<report_t>(1, meta.report);
            }
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
