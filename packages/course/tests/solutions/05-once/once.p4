// Add each update exactly once, although frames are lost and sent again.
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

#define KEYS 16

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
    // Two pools of cells, one for each version: while the sum of one version is on its way to the workers, that of
    // the other one is being made. The cell of a version and a key is at the index version * KEYS + key.
    register<bit<32>>(2 * KEYS) sums;
    register<bit<32>>(2 * KEYS) counts;  // how many updates a sum has; 0 for a complete one
    register<bit<32>>(2 * KEYS) seen;    // a bit for each worker whose update the sum has
    register<bit<32>>(1) workers;        // written by the controller

    apply {
        mark_to_drop(std);
        if (hdr.hot.isValid() && hdr.hot.op == 1 && hdr.hot.key < KEYS && hdr.hot.version < 2 && hdr.hot.worker < 32) {
            bit<32> expected;
            workers.read(expected, 0);
            bit<32> cell = (bit<32>) hdr.hot.version * KEYS + hdr.hot.key;
            bit<32> other_cell = (bit<32>) (1 - hdr.hot.version) * KEYS + hdr.hot.key;
            bit<32> worker = 32w1 << (bit<8>) hdr.hot.worker;
            bit<32> sum;
            bit<32> count;
            sums.read(sum, cell);
            counts.read(count, cell);
            bit<32> here;
            bit<32> there;
            seen.read(here, cell);
            seen.read(there, other_cell);
            if (here & worker == 0) {
                seen.write(cell, here | worker);
                seen.write(other_cell, there & ~worker);
                sum = count == 0 ? hdr.hot.value : sum + hdr.hot.value;
                count = count + 1;
                if (count == expected) {
                    hdr.hot.op = 2;
                    hdr.hot.value = sum;
                    std.mcast_grp = 1;
                    count = 0;
                }
                sums.write(cell, sum);
                counts.write(cell, count);
            } else if (count == 0) {
                hdr.hot.op = 2;
                hdr.hot.value = sum;
                std.egress_spec = std.ingress_port;
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
