// What the exercises calc, source_routing, load_balance and multicast do, each for one type of frames.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_CALCULATION = 0x2001;
const bit<16> TYPE_ROUTE = 0x2002;
const bit<16> TYPE_FLOW = 0x2003;
const bit<16> TYPE_ARRIVED = 0x2004;
const bit<48> BROADCAST = 0xffffffffffff;
const bit<16> FIRST_PATH = 4;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header calculation_t {
    bit<8>  operation;
    bit<32> a;
    bit<32> b;
    bit<32> result;
}

header hop_t {
    bit<1>  is_last;
    bit<15> port;
}

header flow_t { bit<16> number; }

struct headers_t {
    ethernet_t ethernet;
    calculation_t calculation;
    hop_t[8] route;
    flow_t flow;
}

struct metadata_t { bit<16> path; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_CALCULATION: calculation;
            TYPE_ROUTE: hop;
            TYPE_FLOW: flow;
            default: accept;
        }
    }

    state calculation {
        packet.extract(hdr.calculation);
        transition accept;
    }

    state hop {
        packet.extract(hdr.route.next);
        transition select(hdr.route.last.is_last) {
            0: hop;
            default: accept;
        }
    }

    state flow {
        packet.extract(hdr.flow);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Serve(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() { mark_to_drop(std); }

    action answer(bit<32> result) {
        bit<48> asking = hdr.ethernet.source;
        hdr.calculation.result = result;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = asking;
        std.egress_spec = std.ingress_port;
    }

    action add() { answer(hdr.calculation.a + hdr.calculation.b); }
    action subtract() { answer(hdr.calculation.a - hdr.calculation.b); }
    action and() { answer(hdr.calculation.a & hdr.calculation.b); }
    action or() { answer(hdr.calculation.a | hdr.calculation.b); }
    action xor() { answer(hdr.calculation.a ^ hdr.calculation.b); }

    table operations {
        key = { hdr.calculation.operation : exact; }
        actions = { add; subtract; and; or; xor; drop; }
        const default_action = drop();
        const entries = {
            0x2b: add();
            0x2d: subtract();
            0x26: and();
            0x7c: or();
            0x5e: xor();
        }
    }

    apply {
        if (hdr.calculation.isValid()) {
            operations.apply();
        } else if (hdr.route[0].isValid()) {
            if (hdr.route[0].is_last == 1) { hdr.ethernet.type = TYPE_ARRIVED; }
            std.egress_spec = (bit<9>) hdr.route[0].port;
            hdr.route.pop_front(1);
        } else if (hdr.flow.isValid()) {
            hash(meta.path, HashAlgorithm.crc16, FIRST_PATH, { hdr.ethernet.source, hdr.flow.number }, 16w2);
            std.egress_spec = (bit<9>) meta.path;
        } else if (hdr.ethernet.destination == BROADCAST) {
            std.mcast_grp = 1;
        } else {
            drop();
        }
    }
}

control Prune(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.mcast_grp != 0 && std.egress_port == std.ingress_port) { mark_to_drop(std); }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), Verify(), Serve(), Prune(), Compute(), Deparse()) main;
