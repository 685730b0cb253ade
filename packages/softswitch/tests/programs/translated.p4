// Where P4Info is not what the JSON has: types that controllers see otherwise, a digest without a name, and an
// action selector without a table.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", 32)
type bit<9> port_t;
@p4runtime_translation("", string)
type bit<10> vrf_t;

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> padding;
}

header probe_t {
    bit<8> kind;
    bit<8> value;
}

struct headers_t {
    packet_in_t packet_in;
    probe_t probe;
}

struct metadata_t {
    port_t port;
    vrf_t vrf;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        meta.port = (port_t)std.ingress_port;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<port_t>(4) last;
    action_selector(HashAlgorithm.crc16, 8, 8) unused;

    action forward(port_t port, vrf_t vrf) {
        std.egress_spec = (bit<9>)port;
        meta.vrf = vrf;
        last.write(0, port);
    }
    table ports {
        key = { meta.port: exact; hdr.probe.kind: ternary; }
        actions = { forward; NoAction; }
    }
    table vrfs {
        key = { meta.vrf: exact; }
        actions = { forward; NoAction; }
    }

    apply {
        ports.apply();
        vrfs.apply();
        digest<tuple<bit<8>, port_t>>(1, { hdr.probe.kind, meta.port });
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 64) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.port;
        }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(P(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
