// Parser value sets of one field and of several, beside constants and masks in one select; a sub-parser.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<16> kind;
    bit<7>  narrow;
    bit<9>  wide;
    bit<8>  path;
}

header inner_t { bit<8> value; }

struct headers_t {
    probe_t probe;
    inner_t inner;
}

struct metadata_t {}

struct pair_t {
    bit<7> narrow;
    bit<9> wide;
}

parser Inner(packet_in packet, out inner_t inner, in bit<8> most) {
    state start {
        packet.extract(inner);
        transition select(inner.value) {
            0 .. 9: accept;
            default: check;
        }
    }

    state check {
        verify(inner.value <= most, error.HeaderTooShort);
        transition accept;
    }
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) kinds;
    value_set<pair_t>(4) pairs;
    Inner() inner;

    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.kind) {
            1: pair;
            kinds: kind;
            0xff00 &&& 0xff00: pair;
            default: accept;
        }
    }

    state kind {
        hdr.probe.path = 1;
        inner.apply(packet, hdr.inner, 100);
        transition pair;
    }

    state pair {
        hdr.probe.path = hdr.probe.path | 2;
        transition select(hdr.probe.narrow, hdr.probe.wide) {
            (1, 1): accept;
            pairs: listed;
            (_, 5): five;
            default: accept;
        }
    }

    state listed {
        hdr.probe.path = hdr.probe.path | 4;
        transition accept;
    }

    state five {
        hdr.probe.path = hdr.probe.path | 8;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Change(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        if (std.parser_error != error.NoError) { std.egress_spec = 2; }
        if (hdr.inner.isValid()) { hdr.inner.value = hdr.inner.value + 1; }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.inner);
    }
}

V1Switch(P(), Verify(), Change(), Leave(), Compute(), Deparse()) main;
