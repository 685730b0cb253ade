// A learning switch: digests of unknown sources, entries with idle timeouts, flooding by group 1, a meter, and
// a CPU port.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<16> port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> port;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t { bit<2> colour; }

struct learned_t {
    bit<48> source;
    bit<9> port;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Learn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(512, MeterType.packets) rates;

    action learn() { digest<learned_t>(1, { hdr.ethernet.source, std.ingress_port }); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action flood() { std.mcast_grp = 1; }

    action punt() {
        std.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.port = (bit<16>) std.ingress_port;
    }

    table sources {
        key = { hdr.ethernet.source: exact; }
        actions = { learn; NoAction; }
        default_action = learn();
        support_timeout = true;
    }

    table destinations {
        key = { hdr.ethernet.destination: exact; }
        actions = { forward; flood; punt; }
        default_action = flood();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.port;
            hdr.packet_out.setInvalid();
            return;
        }
        rates.execute_meter((bit<32>) std.ingress_port, meta.colour);
        if (meta.colour == 2) {
            mark_to_drop(std);
            return;
        }
        sources.apply();
        destinations.apply();
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == std.ingress_port) { mark_to_drop(std); }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(P(), Verify(), Learn(), Leave(), Compute(), Deparse()) main;
