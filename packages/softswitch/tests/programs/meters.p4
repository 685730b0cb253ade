// Two-rate three-colour meters: indirect and direct, of packets and of bytes.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> index;
    bit<8> first;
    bit<8> second;
    bit<8> by_packets;
    bit<8> by_bytes;
    bit<8> of_first;
    bit<8> of_second;
}

struct headers_t { probe_t probe; }

struct metadata_t {
    bit<2> of_first;
    bit<8> of_second;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Measure(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(4, MeterType.packets) packets;
    meter(4, MeterType.bytes) octets;
    direct_meter<bit<2>>(MeterType.packets) first_rate;
    direct_meter<bit<8>>(MeterType.bytes) second_rate;

    action first_hit() { first_rate.read(meta.of_first); }
    table first {
        key = { hdr.probe.first: exact; }
        actions = { first_hit; NoAction; }
        meters = first_rate;
        default_action = NoAction();
        size = 8;
    }

    action second_hit(bit<8> added) {
        second_rate.read(meta.of_second);
        hdr.probe.of_second = meta.of_second + added;
    }
    table second {
        key = { hdr.probe.second: lpm; }
        actions = { second_hit; NoAction; }
        meters = second_rate;
        default_action = NoAction();
        size = 8;
    }

    apply {
        if (!hdr.probe.isValid()) {
            mark_to_drop(std);
            return;
        }
        std.egress_spec = 1;
        hdr.probe.by_packets = 9;
        hdr.probe.by_bytes = 9;
        if (hdr.probe.index < 4) {
            packets.execute_meter((bit<32>) hdr.probe.index, hdr.probe.by_packets);
            octets.execute_meter((bit<32>) hdr.probe.index, hdr.probe.by_bytes);
        }
        first.apply();
        hdr.probe.of_first = (bit<8>) meta.of_first;
        second.apply();
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(P(), Verify(), Measure(), Leave(), Compute(), Deparse()) main;
