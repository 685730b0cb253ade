// Types that controllers see as names or wider numbers: in keys of each kind, parameters, digests, registers, and the
// headers of packet-in and packet-out.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
type bit<9> port_t;
@p4runtime_translation("", string)
@p4runtime_translation_mappings({ { "", 0 }, { "vrf \"b\"", 7 } })
type bit<4> vrf_t;
@p4runtime_translation("", 32)
@p4runtime_translation_mappings({ { 0xfffffffd, 510 } })
type bit<16> hop_t;

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> padding;
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> padding;
}

header probe_t {
    bit<16> hop;
    bit<8>  vrf;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    probe_t probe;
}

struct metadata_t {
    port_t port;
    vrf_t vrf;
    hop_t hop;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        meta.port = (port_t) std.ingress_port;
        transition select(std.ingress_port) {
            255: parse_packet_out;
            default: parse_probe;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.probe);
        meta.vrf = (vrf_t) hdr.probe.vrf[3:0];
        meta.hop = (hop_t) hdr.probe.hop;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(port_t port) { std.egress_spec = (bit<9>) port; }
    action set_hop(hop_t hop, vrf_t vrf) {
        meta.hop = hop;
        meta.vrf = vrf;
    }
    counter(512, CounterType.packets) seen;
    meter(512, MeterType.packets) rate;
    register<vrf_t>(512) last_vrf;
    register<hop_t>(1) last_hop;

    action copy() { std.mcast_grp = 1; }

    table classify {
        key = { meta.port: exact; meta.hop: ternary; meta.vrf: optional; }
        actions = { forward; set_hop; copy; NoAction; }
    }
    table hops {
        key = { meta.hop: range; }
        actions = { forward; NoAction; }
    }
    table prefixes {
        key = { meta.hop: lpm; }
        actions = { forward; NoAction; }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            classify.apply();
            hops.apply();
            prefixes.apply();
            bit<2> color;
            seen.count((bit<32>) (bit<16>) meta.hop);
            rate.execute_meter((bit<32>) (bit<16>) meta.hop, color);
            last_vrf.write((bit<32>) (bit<16>) meta.hop, meta.vrf);
            last_hop.write(0, meta.hop);
            digest<tuple<vrf_t, bit<8>>>(1, { meta.vrf, hdr.probe.vrf });
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 255) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.port;
        }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(P(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
