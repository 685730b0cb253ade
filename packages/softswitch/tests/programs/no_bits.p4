// Fields of no bits: in headers, metadata, action data, hashes and lists.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<0> nothing;
    bit<8> op;
    bit<0> between;
    bit<8> result;
}

struct headers_t { probe_t probe; }

struct metadata_t {
    @field_list(1)
    bit<0> empty;
    bit<16> sum;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action put(bit<8> value) { hdr.probe.result = value; }
    action put_both(bit<0> empty, bit<8> value) {
        hdr.probe.between = empty;
        hdr.probe.result = value ^ (bit<8>)empty;
    }
    table choices {
        key = { hdr.probe.op: exact; }
        actions = { put; put_both; NoAction; }
        default_action = put(7);
    }
    apply {
        std.egress_spec = 2;
        hdr.probe.between = hdr.probe.nothing;
        meta.empty = (bit<0>)hdr.probe.op;
        if (hdr.probe.op == 1) { hdr.probe.result = (bit<8>)hdr.probe.nothing; }
        if (hdr.probe.op == 2) { hdr.probe.result = hdr.probe.op ++ hdr.probe.nothing; }
        if (hdr.probe.op == 3 && meta.empty == hdr.probe.between) { hdr.probe.result = 9; }
        if (hdr.probe.op == 4) {
            digest(1, { hdr.probe.nothing, hdr.probe.op });
            hash(meta.sum, HashAlgorithm.crc16, 16w0, { hdr.probe.nothing, hdr.probe.op }, 16w0xffff);
            hdr.probe.result = meta.sum[7:0];
        }
        if (hdr.probe.op == 5) { clone_preserving_field_list(CloneType.I2E, 1, 1); }
        if (hdr.probe.op >= 8) { choices.apply(); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(P(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
