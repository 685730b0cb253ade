// Queues between ingress and egress: marks IPv4 packets of ECN-capable transports that found many waiting, and
// writes what befell each packet in its queue into its probe.
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> PROBE_PORT = 5001;
const bit<2> NOT_ECT = 0;
const bit<2> CE = 3;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

header probe_t {
    bit<32> number;
    bit<32> enq_timestamp;
    bit<32> enq_qdepth;
    bit<32> deq_timedelta;
    bit<32> deq_qdepth;
    bit<48> left;           // egress_global_timestamp
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    probe_t    probe;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            PROBE_PORT: probe;
            default: accept;
        }
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

// Out by the next port; the class of DSCP is the priority, group 1 makes copies.
control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) { std.egress_spec = port; }

    action copy(bit<16> group) { std.mcast_grp = group; }

    table ports {
        key = { std.ingress_port : exact; }
        actions = { forward; copy; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        std.egress_spec = std.ingress_port + 1;
        if (hdr.ipv4.isValid()) { std.priority = hdr.ipv4.dscp[5:3]; }
        ports.apply();
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action mark_from(bit<19> depth) {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_ECT && std.enq_qdepth >= depth) { hdr.ipv4.ecn = CE; }
    }

    // What marks at each port: where so many packets, or more, waited before.
    table thresholds {
        key = { std.egress_port : exact; }
        actions = { mark_from; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        thresholds.apply();
        if (hdr.probe.isValid()) {
            hdr.probe.enq_timestamp = std.enq_timestamp;
            hdr.probe.enq_qdepth = (bit<32>) std.enq_qdepth;
            hdr.probe.deq_timedelta = std.deq_timedelta;
            hdr.probe.deq_qdepth = (bit<32>) std.deq_qdepth;
            hdr.probe.left = std.egress_global_timestamp;
            hdr.udp.checksum = 0;
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.probe);
    }
}

V1Switch(P(), Verify(), Send(), Leave(), Compute(), Deparse()) main;
