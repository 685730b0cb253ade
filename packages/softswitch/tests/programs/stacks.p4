// Header stacks and the parser: next, last, lastIndex, positions from the packet, push and pop, lookahead,
// advance, verify, and every error that they give.
#include <core.p4>
#include <v1model.p4>

error { WrongMark }

header probe_t {
    bit<8>  op;
    bit<8>  position;
    bit<8>  error_code;
    bit<8>  index;
    bit<16> length;
    bit<16> seen;
}

header label_t {
    bit<4>  kind;
    bit<12> value;
}

header tail_t { bit<8> mark; }

struct headers_t {
    probe_t    probe;
    label_t[4] labels;
    label_t[4] others;
    tail_t     tail;
}

struct metadata_t {
    bit<16> ahead;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.op) {
            0xf0 &&& 0xf0: skip;
            0xe0 &&& 0xf0: skip_bits;
            default: labels;
        }
    }

    state skip {
        packet.advance(8 * (bit<32>) hdr.probe.position);
        transition labels;
    }

    state skip_bits {
        packet.advance((bit<32>) hdr.probe.position);
        transition labels;
    }

    state labels {
        transition select(packet.lookahead<label_t>().kind, hdr.probe.op) {
            (1, _): label;
            (2, _): pair;
            (3, 0 .. 0x7f): peek;
            (4, _): marked;
            default: accept;
        }
    }

    state label {
        packet.extract(hdr.labels.next);
        hdr.probe.index = (bit<8>) hdr.labels.lastIndex;
        transition select(hdr.labels.last.value) {
            0xfff: accept;
            default: labels;
        }
    }

    state pair {
        packet.extract(hdr.labels.next);
        packet.extract(hdr.others.next);
        hdr.probe.seen = hdr.labels.last.kind ++ hdr.others.last.value;
        transition labels;
    }

    state peek {
        meta.ahead = packet.lookahead<bit<16>>();
        packet.advance(16);
        transition labels;
    }

    state marked {
        packet.advance(16);
        packet.extract(hdr.tail);
        verify(hdr.tail.mark == 0x77, error.WrongMark);
        transition labels;
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
        if (std.parser_error == error.PacketTooShort) { hdr.probe.error_code = 1; }
        if (std.parser_error == error.StackOutOfBounds) { hdr.probe.error_code = 3; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.probe.error_code = 6; }
        if (std.parser_error == error.WrongMark) { hdr.probe.error_code = 7; }
        bit<8> op = hdr.probe.op & 15;
        bit<8> position = hdr.probe.position & 3;
        if (op == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0].value = 0x123;
        } else if (op == 2) {
            hdr.labels.pop_front(1);
        } else if (op == 3) {
            hdr.labels.push_front(3);
        } else if (op == 4) {
            hdr.labels.pop_front(4);
        } else if (op == 5 && hdr.labels[3].isValid()) {
            hdr.probe.seen = hdr.labels[position].kind ++ hdr.labels[position].value;
        } else if (op == 6) {
            hdr.labels[position].value = 0x456;
        } else if (op == 7) {
            hdr.others = hdr.labels;
        } else if (op == 8) {
            hdr.labels[3] = hdr.labels[1];
        } else if (op == 9) {
            hdr.labels[1].setInvalid();
            hdr.others[2].setValid();
        } else if (op == 10) {
            if (hdr.labels[0] == hdr.others[0]) { hdr.probe.seen = 0x0e0e; }
            if (hdr.labels[1] != hdr.others[1]) { hdr.probe.index = 0xd1; }
        } else if (op == 11) {
            hdr.probe.seen = meta.ahead;
        } else if (op == 12) {
            hdr.labels.push_front(2);
            hdr.labels.pop_front(1);
            hdr.labels[1] = hdr.labels[2];
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.probe.length = (bit<16>) std.packet_length; }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.labels);
        packet.emit(hdr.others);
        packet.emit(hdr.tail);
    }
}

V1Switch(P(), Verify(), Change(), Leave(), Compute(), Deparse()) main;
