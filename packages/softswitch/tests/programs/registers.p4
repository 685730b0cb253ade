// Registers of many widths, read and written at any index, beside counters and meters at indices that may be too large.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>   op;
    bit<8>   index;
    bit<3>   narrow;
    bit<5>   color;
    int<8>   signed;
    bit<200> wide;
    int<64>  difference;
    bit<8>   path;
}

struct headers_t { probe_t probe; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Ops: 0 reads all, 1 writes all, 2 adds to all, 3 exchanges neighbours; 128 leaves out the indices that are too large.
control Keep(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<3>>(8) narrow;
    register<int<8>>(8) signed;
    register<bit<200>>(8) wide;
    register<int<64>>(8) difference;
    counter(8, CounterType.packets_and_bytes) seen;
    meter(8, MeterType.packets) rate;
    bit<32> index;

    action read() {
        narrow.read(hdr.probe.narrow, index);
        signed.read(hdr.probe.signed, index);
        wide.read(hdr.probe.wide, index);
        difference.read(hdr.probe.difference, index);
    }

    action write() {
        narrow.write(index, hdr.probe.narrow);
        signed.write(index, hdr.probe.signed);
        wide.write(index, hdr.probe.wide);
        difference.write(index, hdr.probe.difference);
    }

    action add() {
        bit<3> a;
        narrow.read(a, index);
        hdr.probe.narrow = hdr.probe.narrow + a;
        int<8> b;
        signed.read(b, index);
        hdr.probe.signed = hdr.probe.signed - b;
        bit<200> c;
        wide.read(c, index);
        hdr.probe.wide = hdr.probe.wide + c;
        int<64> d;
        difference.read(d, index);
        hdr.probe.difference = hdr.probe.difference - d;
        write();
    }

    action exchange() {
        bit<200> a;
        bit<200> b;
        wide.read(a, index);
        wide.read(b, index ^ 1);
        wide.write(index, b);
        wide.write(index ^ 1, a);
        hdr.probe.wide = a ^ b;
        int<64> c;
        difference.read(c, index ^ 1);
        difference.write(index, c < hdr.probe.difference ? c >> 3 : c |-| 5);
        hdr.probe.path = 4;
        exit;
    }

    table operations {
        key = { hdr.probe.op & 0x7f: exact; }
        actions = { read; write; add; exchange; }
        const default_action = read();
        const entries = {
            1: write();
            2: add();
            3: exchange();
        }
    }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        index = (bit<32>) hdr.probe.index;
        if (hdr.probe.op[7:7] == 1) { index = index & 7; }
        seen.count(index);
        bit<5> color = 9;
        rate.execute_meter(index, color);
        hdr.probe.color = color;
        operations.apply();
        hdr.probe.path = hdr.probe.path | 2;
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(P(), Verify(), Keep(), Leave(), Compute(), Deparse()) main;
