// What a packet tells the control plane: digests and log messages; assertions and random numbers.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    int<8>  signed;
    bit<16> low;
    bit<16> high;
    bit<16> drawn;
    bit<48> address;
}

struct headers_t { probe_t probe; }
struct metadata_t {
    @field_list(1)
    bit<8> told;
}

struct learned_t {
    bit<48> address;
    bit<9>  port;
    bit<8>  signed;
}

struct alarm_t { bit<8> op; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Bits of op: 1 learn, 2 alarm (instead, as the last digest counts), 4 log, 8 random, 16 assert, 32 assume,
// 64 resubmit once after a digest, 128 clone to session 1.
control Tell(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action learn() {
        digest<learned_t>(1, { hdr.probe.address, std.ingress_port, (bit<8>) hdr.probe.signed });
    }

    action alarm() { digest<alarm_t>(2, { hdr.probe.op ^ meta.told }); }

    action log() {
        log_msg("op {} of {}, signed {}", { hdr.probe.op, hdr.probe.address, hdr.probe.signed });
    }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        meta.told = meta.told + 1;
        if (hdr.probe.op[0:0] == 1) { learn(); }
        if (hdr.probe.op[1:1] == 1) { alarm(); }
        if (hdr.probe.op[2:2] == 1) {
            log();
            log_msg("no values");
        }
        if (hdr.probe.op[3:3] == 1) { random(hdr.probe.drawn, hdr.probe.low, hdr.probe.high); }
        if (hdr.probe.op[7:7] == 1) { clone_preserving_field_list(CloneType.I2E, 1, 1); }
        if (hdr.probe.op[4:4] == 1) { assert(hdr.probe.low <= hdr.probe.high); }
        if (hdr.probe.op[5:5] == 1) { assume(hdr.probe.signed > 0); }
        if (hdr.probe.op[6:6] == 1 && std.instance_type == 0) { resubmit_preserving_field_list(1); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) { assert(hdr.probe.signed >= 0); }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(P(), Verify(), Tell(), Leave(), Compute(), Deparse()) main;
