// What the exercise flowcache does: a frame to an unknown destination goes to the controller, which adds an entry
// with an idle timeout and sends the frame on.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;
const bit<32> CPU_SESSION = 57;
const bit<8> TO_CONTROLLER = 1;
const bit<8> UNKNOWN = 7;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<16> port;
    bit<8>  reason;
}

@controller_header("packet_out")
header packet_out_t { bit<16> port; }

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {
    @field_list(TO_CONTROLLER)
    bit<9> port;
    @field_list(TO_CONTROLLER)
    bit<8> reason;
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
        transition accept;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Cache(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) { std.egress_spec = port; }

    action ask() {
        clone_preserving_field_list(CloneType.I2E, CPU_SESSION, TO_CONTROLLER);
        // The copy has what its fields are at the end of ingress.
        meta.port = std.ingress_port;
        meta.reason = UNKNOWN;
        mark_to_drop(std);
    }

    table flows {
        key = { hdr.ethernet.destination : exact; }
        actions = { forward; ask; }
        default_action = ask();
        support_timeout = true;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.port;
            hdr.packet_out.setInvalid();
        } else {
            flows.apply();
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) { hdr.packet_in = { (bit<16>) meta.port, meta.reason }; }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(P(), Verify(), Cache(), Leave(), Compute(), Deparse()) main;
