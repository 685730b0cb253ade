// Says by packet-in which member of a group was picked, and which copies of a packet were made in which order.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

enum bit<16> ask_t {
    GROUP = 0,
    ONE_SHOT = 1,
    MULTICAST = 2,
    CLONE = 3
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
}

header probe_t {
    bit<16> ask;
    bit<16> number;
    bit<16> key;
    bit<16> mark;
    bit<16> instance;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    probe_t probe;
}

struct metadata_t {}

parser OrdersParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.packet_out);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control OrdersChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Orders(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.crc16, 64, 16) paths;
    action_selector(HashAlgorithm.crc16, 64, 16) shots;

    action set_mark(bit<16> mark) {
        hdr.probe.mark = mark;
    }

    table by_group {
        key = {
            hdr.probe.number: exact @name("number");
            hdr.probe.key: selector;
        }
        actions = { set_mark; }
        implementation = paths;
        size = 64;
    }

    table by_one_shot {
        key = {
            hdr.probe.number: exact @name("number");
            hdr.probe.key: selector;
        }
        actions = { set_mark; }
        implementation = shots;
        size = 64;
    }

    apply {
        standard_metadata.egress_spec = CPU_PORT;
        if (hdr.probe.ask == ask_t.GROUP) {
            by_group.apply();
        } else if (hdr.probe.ask == ask_t.ONE_SHOT) {
            by_one_shot.apply();
        } else if (hdr.probe.ask == ask_t.MULTICAST) {
            standard_metadata.mcast_grp = hdr.probe.number;
        } else {
            mark_to_drop(standard_metadata);
            clone(CloneType.I2E, (bit<32>) hdr.probe.number);
        }
    }
}

control OrdersEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.packet_out.setInvalid();
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = 0;
        hdr.probe.instance = standard_metadata.egress_rid;
    }
}

control OrdersDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.probe);
    }
}

V1Switch(OrdersParser(), OrdersChecksums(), Orders(), OrdersEgress(), OrdersChecksums(),
         OrdersDeparser()) main;
