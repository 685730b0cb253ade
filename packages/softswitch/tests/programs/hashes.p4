// Every hash algorithm, and checksums with conditions, with payload, over headers that may be invalid.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    bit<4>  nibble;
    bit<12> rest;
    bit<40> wide;
    bit<16> base;
    bit<16> size;
    bit<8>  wrong;
}

header optional_t {
    bit<3>  three;
    bit<13> thirteen;
    bit<16> checksum;
}

header results_t {
    bit<16> by_crc16;
    bit<32> by_crc32;
    bit<16> by_csum16;
    bit<16> by_xor16;
    bit<64> by_identity;
    bit<16> by_crc16_custom;
    bit<32> by_crc32_custom;
    bit<16> in_range;
    bit<32> nested;
}

header sums_t {
    bit<16> plain;
    bit<16> payload;
    bit<16> conditional;
    bit<32> crc;
    bit<16> after;
}

struct headers_t {
    probe_t    probe;
    optional_t optional;
    sums_t     sums;
    results_t  results;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.op[0:0]) {
            1: more;
            default: sums;
        }
    }

    state more {
        packet.extract(hdr.optional);
        transition sums;
    }

    state sums {
        packet.extract(hdr.sums);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.probe.op[1:1] == 1,
            { hdr.probe.nibble, hdr.probe.rest, hdr.optional.three, hdr.optional.thirteen },
            hdr.optional.checksum,
            HashAlgorithm.csum16);
        verify_checksum_with_payload(
            hdr.probe.op[2:2] == 1,
            { hdr.probe.wide, hdr.probe.nibble },
            hdr.sums.payload,
            HashAlgorithm.csum16);
    }
}

control Mix(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        hdr.probe.wrong = (bit<8>) std.checksum_error;
        hdr.results.setValid();
        hash(hdr.results.by_crc16, HashAlgorithm.crc16, 16w0,
             { hdr.probe.nibble, hdr.probe.rest, hdr.probe.wide }, 32w0x10000);
        hash(hdr.results.by_crc32, HashAlgorithm.crc32, 32w0,
             { hdr.probe.wide, hdr.probe.op, hdr.probe.nibble[2:0] }, 64w0x100000000);
        hash(hdr.results.by_csum16, HashAlgorithm.csum16, 16w0,
             { hdr.probe.wide, hdr.probe.nibble }, 32w0x10000);
        hash(hdr.results.by_xor16, HashAlgorithm.xor16, 16w0,
             { hdr.probe.wide, hdr.probe.rest, hdr.probe.nibble[1:0] }, 32w0x10000);
        hash(hdr.results.by_identity, HashAlgorithm.identity, 64w0,
             { hdr.probe.rest, hdr.probe.wide }, 64w0xffffffffffffffff);
        hash(hdr.results.by_crc16_custom, HashAlgorithm.crc16_custom, 16w0,
             { hdr.probe.wide, 8w0x5a }, 32w0x10000);
        hash(hdr.results.by_crc32_custom, HashAlgorithm.crc32_custom, 32w0,
             { hdr.probe.rest, 4w3, hdr.probe.wide }, 64w0x100000000);
        hash(hdr.results.in_range, HashAlgorithm.crc16, hdr.probe.base,
             { hdr.probe.wide, hdr.probe.rest }, hdr.probe.size);
        hash(hdr.results.nested, HashAlgorithm.crc32, 32w7,
             { hdr.results.by_crc16, hdr.results.by_crc32 }, 32w1000003);
        if (hdr.probe.op[3:3] == 1) { hdr.optional.setInvalid(); }
        if (hdr.probe.op[4:4] == 1) { hdr.results.setInvalid(); }
        if (hdr.probe.op[5:5] == 1) { truncate(24); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            true,
            { hdr.probe.wide, hdr.optional.three, hdr.optional.thirteen, hdr.probe.op },
            hdr.sums.plain,
            HashAlgorithm.csum16);
        update_checksum_with_payload(
            hdr.sums.isValid(),
            { hdr.probe.wide, hdr.probe.rest, hdr.results.by_crc32 },
            hdr.sums.payload,
            HashAlgorithm.csum16);
        update_checksum(
            hdr.probe.op[6:6] == 1 && hdr.optional.isValid(),
            { hdr.sums.plain, hdr.sums.payload },
            hdr.sums.conditional,
            HashAlgorithm.xor16);
        update_checksum_with_payload(
            hdr.probe.op[7:7] == 1,
            { hdr.probe.nibble },
            hdr.sums.crc,
            HashAlgorithm.crc32);
        update_checksum(
            true,
            { hdr.sums.plain, hdr.sums.payload, hdr.sums.conditional, hdr.sums.crc },
            hdr.sums.after,
            HashAlgorithm.crc16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.optional);
        packet.emit(hdr.sums);
        packet.emit(hdr.results);
    }
}

V1Switch(P(), Verify(), Mix(), Leave(), Compute(), Deparse()) main;
