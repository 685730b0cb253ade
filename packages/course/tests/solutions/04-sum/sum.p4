// Add the updates of all workers for a key, and send the sum to all.
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
    register<bit<32>>(KEYS) sums;
    register<bit<32>>(KEYS) counts;   // how many updates a sum has
    register<bit<32>>(1) workers;     // written by the controller

    apply {
        mark_to_drop(std);
        if (hdr.hot.isValid() && hdr.hot.op == 1 && hdr.hot.key < KEYS) {
            bit<32> expected;
            workers.read(expected, 0);
            bit<32> sum;
            bit<32> count;
            sums.read(sum, hdr.hot.key);
            counts.read(count, hdr.hot.key);
            sum = sum + hdr.hot.value;
            count = count + 1;
            if (count == expected) {
                hdr.hot.value = sum;
                hdr.hot.op = 2;
                std.mcast_grp = 1;
                sum = 0;
                count = 0;
            }
            sums.write(hdr.hot.key, sum);
            counts.write(hdr.hot.key, count);
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
