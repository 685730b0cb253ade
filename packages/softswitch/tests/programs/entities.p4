// One of each entity that P4Runtime can write: what tests/unit/p4runtime/control.p4 does not have.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> note;
}

struct headers_t {
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<16> hashed;
    bit<2> color;
}

struct learned_t {
    bit<48> src_addr;
    bit<9> port;
}

const bit<9> CPU_PORT = 255;

parser EntitiesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) odd_types;

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
        transition select(hdr.ethernet.ether_type) {
            odd_types: mark;
            default: accept;
        }
    }
    state mark {
        meta.hashed = 1;
        transition accept;
    }
}

control EntitiesChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Entities(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action_profile(4) nexthops;
    action_selector(HashAlgorithm.crc16, 8, 16) paths;
    meter(8, MeterType.packets) rates;
    direct_meter<bit<2>>(MeterType.bytes) entry_rates;
    direct_counter(CounterType.packets_and_bytes) entry_counts;
    counter(8, CounterType.packets_and_bytes) counts;
    register<bit<32>>(8) cells;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward_to(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action forward_metered(bit<9> port) {
        standard_metadata.egress_spec = port;
        entry_rates.read(meta.color);
    }

    action learn() {
        digest<learned_t>(1, { hdr.ethernet.src_addr, standard_metadata.ingress_port });
    }

    table routed {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; replicate; drop; }
        implementation = nexthops;
        size = 64;
    }

    table balanced {
        key = {
            hdr.ethernet.dst_addr: lpm @name("dst_addr");
            hdr.ethernet.src_addr: selector;
        }
        actions = { forward_to; replicate; drop; }
        implementation = paths;
        size = 64;
    }

    table metered {
        key = { hdr.ethernet.ether_type: ternary @name("ether_type"); }
        actions = { forward_metered; NoAction; }
        meters = entry_rates;
        counters = entry_counts;
        size = 64;
    }

    table seen {
        key = { hdr.ethernet.src_addr: exact @name("src_addr"); }
        actions = { learn; NoAction; }
        default_action = learn();
        support_timeout = true;
        size = 64;
    }

    table started {
        key = { hdr.ethernet.ether_type: exact @name("ether_type"); }
        actions = { drop; NoAction; }
        entries = {
            0x0800: NoAction();
            0x86dd: drop();
        }
        size = 4;
    }

    apply {
        seen.apply();
        started.apply();
        routed.apply();
        balanced.apply();
        metered.apply();
        bit<32> color;
        rates.execute_meter(0, color);
        cells.write(0, color);
        counts.count(0);
        clone(CloneType.I2E, 5);
    }
}

control EntitiesEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply {}
}

control EntitiesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(EntitiesParser(), EntitiesChecksums(), Entities(), EntitiesEgress(), EntitiesChecksums(),
         EntitiesDeparser()) main;
