// Header unions and stacks of unions: extraction, validity, assignment, comparison, push and pop.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> op;
    bit<8> first;
    bit<8> valid;
    bit<8> error_code;
    bit<8> length;
}

header short_t {
    bit<8>  kind;
    bit<16> value;
}

header long_t {
    bit<8>  kind;
    bit<32> value;
    bit<8>  last;
}

header_union option_t {
    short_t short;
    long_t  long;
}

struct headers_t {
    probe_t     probe;
    option_t    one;
    option_t    two;
    option_t[3] many;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.first) {
            1: one_short;
            2: one_long;
            3: both;
            default: options;
        }
    }

    state one_short {
        packet.extract(hdr.one.short);
        transition options;
    }

    state one_long {
        packet.extract(hdr.one.long);
        transition options;
    }

    state both {
        packet.extract(hdr.one.short);
        packet.extract(hdr.two.long);
        transition options;
    }

    state options {
        transition select(packet.lookahead<bit<8>>()) {
            1: more_short;
            2: more_long;
            default: accept;
        }
    }

    state more_short {
        packet.extract(hdr.many.next.short);
        transition options;
    }

    state more_long {
        packet.extract(hdr.many.next.long);
        transition options;
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
        if (std.parser_error == error.StackOutOfBounds) { hdr.probe.error_code = 3; }
        if (std.parser_error == error.PacketTooShort) { hdr.probe.error_code = 1; }
        if (hdr.probe.op == 1) {
            hdr.one.short.setValid();
            hdr.one.short.value = 0x1234;
        } else if (hdr.probe.op == 2) {
            hdr.one.long.setValid();
            hdr.one.long.last = 0x56;
        } else if (hdr.probe.op == 3) {
            hdr.two = hdr.one;
        } else if (hdr.probe.op == 4) {
            hdr.one.short.setInvalid();
        } else if (hdr.probe.op == 5) {
            hdr.many[0].long.setInvalid();
            hdr.many[1].short.setValid();
        } else if (hdr.probe.op == 6) {
            hdr.many.push_front(1);
        } else if (hdr.probe.op == 7) {
            hdr.many.pop_front(1);
        } else if (hdr.probe.op == 8) {
            hdr.many[2] = hdr.one;
        } else if (hdr.probe.op == 9) {
            hdr.many.push_front(2);
            hdr.many[0].short.setValid();
        } else if (hdr.probe.op == 10) {
            hdr.one = hdr.many[0];
        }
        if (hdr.one.isValid()) { hdr.probe.valid = hdr.probe.valid | 1; }
        if (hdr.two.isValid()) { hdr.probe.valid = hdr.probe.valid | 2; }
        if (hdr.many[0].short.isValid()) { hdr.probe.valid = hdr.probe.valid | 4; }
        if (hdr.many[1].long.isValid()) { hdr.probe.valid = hdr.probe.valid | 8; }
        if (hdr.one == hdr.two) { hdr.probe.valid = hdr.probe.valid | 16; }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.probe.length = (bit<8>) std.packet_length; }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.one);
        packet.emit(hdr.two);
        packet.emit(hdr.many);
    }
}

V1Switch(P(), Verify(), Change(), Leave(), Compute(), Deparse()) main;
