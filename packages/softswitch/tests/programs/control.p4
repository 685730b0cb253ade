// A small program whose tables, counters and registers cover what the P4Runtime server answers for.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> _pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> _pad;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<12> tag;
}

const bit<9> CPU_PORT = 255;

parser ControlParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control ControlChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ControlIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    register<bit<96>>(4096) cells;
    counter(16, CounterType.packets_and_bytes) drops;
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward_to(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action punt() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in._pad = 0;
        standard_metadata.egress_spec = CPU_PORT;
    }

    action set_tag(bit<12> tag, bit<48> mac) {
        meta.tag = tag;
        hdr.ethernet.src_addr = mac;
    }

    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; punt; @tableonly set_tag; @defaultonly drop; }
        default_action = drop();
        counters = forwarded;
        size = 8192;
    }

    table pairs {
        key = {
            hdr.ethernet.src_addr: exact @name("src_addr");
            meta.tag: exact @name("tag");
        }
        actions = { set_tag; NoAction; }
        const default_action = NoAction();
        size = 4;
    }

    table types {
        key = { hdr.ethernet.ether_type: exact @name("ether_type"); }
        actions = { punt; NoAction; }
        const entries = {
            0x88cc: punt();
            0x0800: NoAction();
        }
        default_action = NoAction();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            pairs.apply();
            types.apply();
            if (!forward.apply().hit) {
                drops.count(0);
            }
            bit<96> cell;
            cells.read(cell, 0);
            cells.write(0, cell + 1);
        }
    }
}

control ControlEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply {}
}

control ControlDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ControlParser(), ControlChecksums(), ControlIngress(), ControlEgress(), ControlChecksums(),
         ControlDeparser()) main;
