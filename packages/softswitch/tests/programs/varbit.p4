// Fields of variable length: extraction with all its errors, assignment, validity, checksums, in a stack too.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    bit<8>  error_code;
    bit<16> length;
    bit<16> sum;
}

header list_t {
    bit<8>      bits;
    varbit<128> data;
    bit<16>     tail;
}

header item_t {
    bit<8>     bytes;
    bit<8>     more;
    varbit<64> data;
}

struct headers_t {
    probe_t   probe;
    list_t    first;
    list_t    second;
    item_t[3] items;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        packet.extract(hdr.first, (bit<32>) packet.lookahead<bit<8>>());
        transition select(hdr.probe.op) {
            0x80 &&& 0x80: items;
            default: second;
        }
    }

    state second {
        packet.extract(hdr.second, (bit<32>) packet.lookahead<bit<8>>());
        transition select(hdr.probe.op) {
            0x40 &&& 0x40: items;
            default: accept;
        }
    }

    state items {
        packet.extract(hdr.items.next, 8 * (bit<32>) packet.lookahead<bit<8>>());
        transition select(hdr.items.last.more) {
            0: accept;
            default: items;
        }
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
        if (std.parser_error == error.HeaderTooShort) { hdr.probe.error_code = 4; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.probe.error_code = 6; }
        bit<8> op = hdr.probe.op & 15;
        if (op == 1) {
            hdr.second = hdr.first;
        } else if (op == 2) {
            hdr.first = hdr.second;
        } else if (op == 3) {
            hdr.first.setInvalid();
        } else if (op == 4) {
            hdr.first.setInvalid();
            hdr.first.setValid();
        } else if (op == 5) {
            hdr.second.setValid();
            hdr.second.tail = 0xabcd;
        } else if (op == 6) {
            hdr.items.pop_front(1);
        } else if (op == 7) {
            hdr.items.push_front(1);
        } else if (op == 8) {
            hdr.items[0] = hdr.items[1];
        } else if (op == 9 && hdr.first.isValid() && hdr.second.isValid()) {
            hdr.first.data = hdr.second.data;
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.probe.length = (bit<16>) std.packet_length; }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.probe.isValid(),
            { hdr.probe.length, hdr.first.data, hdr.first.tail, hdr.second.data },
            hdr.probe.sum,
            HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.items);
    }
}

V1Switch(P(), Verify(), Change(), Leave(), Compute(), Deparse()) main;
