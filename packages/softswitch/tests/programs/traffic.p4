// All requests of the traffic manager in any combination, in ingress and egress, from a packet that says which;
// field lists with standard metadata; what every copy sees.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  ingress_op;
    bit<8>  egress_op;
    bit<8>  passes;
    bit<8>  port;
    bit<8>  group;
    bit<8>  session;
    bit<16> cut;
}

header seen_t {
    bit<8>  type;
    bit<8>  number;
    bit<16> length;
    bit<16> rid;
    bit<16> from;
    bit<16> spec;
    bit<16> group;
    bit<8>  kept;
    bit<8>  lost;
}

struct headers_t {
    seen_t[3] seen;
    probe_t   probe;
}

struct metadata_t {
    @field_list(1, 3)
    bit<8> kept;
    @field_list(2)
    bit<8> lost;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0x80 &&& 0x80: seen;
            default: probe;
        }
    }

    state seen {
        packet.extract(hdr.seen.next);
        transition start;
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Bits of both: 1 clone, 2 clone again with another list, 4 truncate, 8 drop, 16 exit early; of ingress_op: 32 multicast,
// 64 resubmit; of egress_op: 32 recirculate, 64 leave a record of what was seen.
control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) arrived;

    action leave() { exit; }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        arrived.count(std.instance_type + (std.egress_rid == 0 ? 32w0 : 8));
        meta.kept = meta.kept + 1;
        meta.lost = meta.lost + 0x10;
        std.egress_spec = (bit<9>) hdr.probe.port;
        if (hdr.probe.ingress_op[0:0] == 1) { clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.probe.session, 1); }
        if (hdr.probe.ingress_op[1:1] == 1) { clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.probe.session + 1, 2); }
        if (hdr.probe.ingress_op[2:2] == 1) { truncate((bit<32>) hdr.probe.cut); }
        if (hdr.probe.ingress_op[3:3] == 1) { mark_to_drop(std); }
        if (hdr.probe.ingress_op[6:6] == 1 && meta.kept < 3) { resubmit_preserving_field_list(3); }
        if (hdr.probe.ingress_op[4:4] == 1) { leave(); }
        if (hdr.probe.ingress_op[5:5] == 1) { std.mcast_grp = (bit<16>) hdr.probe.group; }
        meta.kept = meta.kept | 0x40;
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) left;

    action leave() { exit; }

    action record() {
        hdr.seen.push_front(1);
        hdr.seen[0].setValid();
        hdr.seen[0].type = 0x80 | (bit<8>) std.instance_type;
        hdr.seen[0].number = hdr.probe.passes;
        hdr.seen[0].length = (bit<16>) std.packet_length;
        hdr.seen[0].rid = std.egress_rid;
        hdr.seen[0].from = (bit<16>) std.ingress_port;
        hdr.seen[0].spec = (bit<16>) std.egress_port;
        hdr.seen[0].group = std.mcast_grp;
        hdr.seen[0].kept = meta.kept;
        hdr.seen[0].lost = meta.lost;
    }

    apply {
        left.count(std.instance_type);
        if (hdr.probe.egress_op[6:6] == 1) { record(); }
        if (std.instance_type == 2 || hdr.probe.passes == 0) { return; }
        hdr.probe.passes = hdr.probe.passes - 1;
        meta.kept = meta.kept + 5;
        if (hdr.probe.egress_op[0:0] == 1) { clone_preserving_field_list(CloneType.E2E, (bit<32>) hdr.probe.session, 3); }
        if (hdr.probe.egress_op[1:1] == 1) { clone_preserving_field_list(CloneType.E2E, (bit<32>) hdr.probe.session, 2); }
        if (hdr.probe.egress_op[2:2] == 1) { truncate((bit<32>) hdr.probe.cut); }
        if (hdr.probe.egress_op[3:3] == 1) { mark_to_drop(std); }
        if (hdr.probe.egress_op[4:4] == 1) { leave(); }
        if (hdr.probe.egress_op[5:5] == 1) { recirculate_preserving_field_list(1); }
        meta.kept = 0xff;
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.seen);
        packet.emit(hdr.probe);
    }
}

V1Switch(P(), Verify(), Send(), Leave(), Compute(), Deparse()) main;
