// Clones from ingress and egress with field lists, multicast, truncate, drops, priorities.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    bit<8>  port;
    bit<16> group;
    bit<16> session;
    bit<16> cut;
    bit<8>  instance;
    bit<8>  rid;
    bit<16> length;
    bit<8>  kept;
    bit<8>  lost;
    bit<8>  from;
    bit<8>  passes;
}

header extra_t { bit<32> value; }

struct headers_t {
    probe_t probe;
    extra_t extra;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> kept;
    @field_list(2)
    bit<8> also;
    bit<8> lost;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(std.ingress_port) {
            7: extra;
            default: accept;
        }
    }

    state extra {
        packet.extract(hdr.extra);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Bits of op: 1 clone at ingress, 2 multicast, 4 truncate at ingress, 8 clone at egress, 16 truncate at egress,
// 32 drop at egress, 64 add a header, 128 a priority. Port 255 drops at ingress.
control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets_and_bytes) arrived;

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        arrived.count((bit<32>) hdr.probe.op[1:0]);
        meta.kept = hdr.probe.op ^ 0x5a;
        meta.also = hdr.probe.port;
        meta.lost = 0x77;
        std.egress_spec = (bit<9>) hdr.probe.port;
        if (hdr.probe.op[0:0] == 1) {
            if (hdr.probe.cut[0:0] == 1) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.probe.session, 2);
            } else {
                clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.probe.session, 1);
            }
        }
        if (hdr.probe.op[2:2] == 1) { truncate((bit<32>) hdr.probe.cut); }
        if (hdr.probe.op[6:6] == 1) {
            hdr.extra.setValid();
            hdr.extra.value = 0xdeadbeef;
        }
        if (hdr.probe.op[7:7] == 1) { std.priority = 3; }
        if (hdr.probe.port == 255) { mark_to_drop(std); }
        if (hdr.probe.op[1:1] == 1) { std.mcast_grp = hdr.probe.group; }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets) left;

    apply {
        left.count(std.instance_type);
        hdr.probe.instance = hdr.probe.instance << 4 | (bit<8>) std.instance_type;
        hdr.probe.rid = (bit<8>) std.egress_rid;
        hdr.probe.length = (bit<16>) std.packet_length;
        hdr.probe.kept = meta.kept;
        hdr.probe.lost = meta.lost + meta.also;
        hdr.probe.from = (bit<8>) std.ingress_port;
        hdr.probe.passes = hdr.probe.passes + 1;
        if (std.instance_type == 0 || std.instance_type == 5) {
            if (hdr.probe.op[3:3] == 1) {
                meta.kept = meta.kept + 1;
                clone_preserving_field_list(CloneType.E2E, (bit<32>) hdr.probe.session + 1, 1);
            }
            if (hdr.probe.op[5:5] == 1) { mark_to_drop(std); }
        }
        if (hdr.probe.op[4:4] == 1) { truncate(10); }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
        packet.emit(hdr.extra);
    }
}

V1Switch(P(), Verify(), Send(), Leave(), Compute(), Deparse()) main;
