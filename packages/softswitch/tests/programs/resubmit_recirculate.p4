// Packets that go round: resubmit and recirculate with field lists, beside clones and multicast.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;
    bit<4>  resubmits;
    bit<4>  recirculations;
    bit<8>  port;
    bit<8>  instance;
    bit<16> length;
    bit<16> trace;
    bit<8>  from;
}

header lap_t {
    bit<8> number;
    bit<8> from;
}

struct headers_t {
    lap_t   lap;
    probe_t probe;
}

struct metadata_t {
    @field_list(1)
    bit<4> resubmitted;
    @field_list(2)
    bit<16> trace;
    bit<8> lost;
    bit<8> lost_by_ingress;     // used by ingress only, and 0 again in each pass
    bit<8> lost_by_egress;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0xf0 &&& 0xf0: lap;
            default: probe;
        }
    }

    state lap {
        packet.extract(hdr.lap);
        transition probe;
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Bits of op: 1 clone at ingress to session 1, 2 multicast to group 1, 4 add a header with each lap, 8 drop.
control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) passes;

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        passes.count(std.instance_type);
        std.egress_spec = (bit<9>) hdr.probe.port;
        hdr.probe.from = (bit<8>) std.ingress_port + meta.lost_by_ingress;
        if (hdr.probe.op[0:0] == 1) { clone_preserving_field_list(CloneType.I2E, 1, 2); }
        if (hdr.probe.op[1:1] == 1) { std.mcast_grp = 1; }
        if (meta.resubmitted < hdr.probe.resubmits) {
            meta.resubmitted = meta.resubmitted + 1;
            meta.lost = 0xff;
            meta.lost_by_ingress = 0x40;
            hdr.probe.trace = 0xffff;
            resubmit_preserving_field_list(1);
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) lengths;

    apply {
        lengths.write(std.instance_type, std.packet_length);
        meta.trace = meta.trace << 4 | (bit<16>) std.instance_type;
        hdr.probe.instance = (bit<8>) std.instance_type;
        hdr.probe.length = (bit<16>) std.packet_length;
        hdr.probe.trace = meta.trace + (bit<16>) (meta.lost + meta.lost_by_egress);
        meta.lost_by_egress = 0x20;
        if (hdr.probe.recirculations > 0 && std.instance_type != 1) {
            hdr.probe.recirculations = hdr.probe.recirculations - 1;
            if (hdr.probe.op[2:2] == 1) {
                hdr.lap.setValid();
                hdr.lap.number = 0xf0 | (hdr.lap.number + 1);
                hdr.lap.from = (bit<8>) std.egress_port;
            }
            if (hdr.probe.op[3:3] == 1) { mark_to_drop(std); }
            truncate(8);
            recirculate_preserving_field_list(2);
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.lap);
        packet.emit(hdr.probe);
    }
}

V1Switch(P(), Verify(), Send(), Leave(), Compute(), Deparse()) main;
