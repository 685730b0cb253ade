// The chip's parser for two passes, which two_passes.p4 explains. Each field is written once: what a pass knows from its
// port is set in states of its own. Bytes after what a pass parses are its payload, and lanes of answers are not parsed.
// No chip was found to have room for the program (README.md).
#include "chain.p4"

parser HotlineParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            SWITCH_CPU_PORT: parse_packet_out;
            RECIRCULATION_PORT: parse_second_pass;
            default: parse_ingress_port;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        meta.ingress_port = SWITCH_CPU_PORT;
        transition select(hdr.packet_out.submit_to_ingress) {
            1: parse_first_pass;
            default: accept;
        }
    }

    // A state of its own: after a packet_out header, the port is no longer at this offset of the parser's buffer.
    state parse_ingress_port {
        meta.ingress_port = intrinsic.ingress_port;
        transition parse_first_pass;
    }

    state parse_first_pass {
        meta.is_second = 0;
        meta.first_is_answered = 1;
        meta.first_served = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.bad_checksum = ipv4_checksum.verify();
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.protocol) {
            (4, 5, 0 &&& IPV4_MORE_FRAGMENTS, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.src_port, hdr.udp.dst_port) {
            (_, HOTLINE_PORT): parse_rpc;
            (HOTLINE_PORT, _): parse_rpc;
            default: accept;
        }
    }

    state parse_rpc {
        packet.extract(hdr.rpc);
        meta.live = hdr.rpc.live[15:0];
        transition select(hdr.rpc.flags, hdr.rpc.count) {
            (_, 0): accept;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_VALUES | FLAG_RESPONSE), _): parse_pull_key_00;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_RESPONSE), _): parse_key_00;
            default: accept;
        }
    }

#define PULL_KEY(nn, i, next) state parse_pull_key_##nn { \
    packet.extract(hdr.keys[i]); \
    hdr.values[i].setValid(); \
    hdr.values[i].value = 0; \
    transition select(hdr.rpc.count) { i + 1: accept; default: parse_pull_key_##next; } }
    CHAIN_TO_15(PULL_KEY)
#undef PULL_KEY

    state parse_pull_key_16 {
        transition accept;
    }

#define KEY(nn, i, next) state parse_key_##nn { \
    packet.extract(hdr.keys[i]); \
    transition select(hdr.rpc.count) { i + 1: parse_value_00; default: parse_key_##next; } }
    CHAIN_TO_15(KEY)
#undef KEY

    state parse_key_16 {
        transition parse_other_key_00;
    }

#define KEY(nn, i, next) state parse_other_key_##nn { \
    packet.extract(hdr.other_keys[i]); \
    transition select(hdr.rpc.count) { PASS_LANES + i + 1: parse_value_00; default: parse_other_key_##next; } }
    CHAIN_TO_15(KEY)
#undef KEY

    state parse_other_key_16 {
        meta.is_malformed = true;
        transition accept;
    }

#define VALUE(nn, i, next) state parse_value_##nn { \
    packet.extract(hdr.values[i]); \
    transition select(hdr.rpc.count) { i + 1: accept; default: parse_value_##next; } }
    CHAIN_TO_15(VALUE)
#undef VALUE

    state parse_value_16 {
        transition accept;
    }

    // The first pass has checked what comes back.
    state parse_second_pass {
        packet.extract(hdr.pass);
        meta.ingress_port = hdr.pass.ingress_port;
        meta.is_second = 1;
        meta.first_is_answered = hdr.pass.is_answered;
        meta.first_served = hdr.pass.served;
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.rpc);
        meta.live = hdr.rpc.live[31:16];
        transition select(hdr.rpc.flags) {
            FLAG_VALUES &&& FLAG_VALUES: parse_high_key_00;
            default: parse_others_of_pull;
        }
    }

#define OTHERS(nn, i) packet.extract(hdr.other_keys[i]);
#define OTHER_VALUES(nn, i) packet.extract(hdr.other_values[i]);
    state parse_others_of_pull {
        REPEAT_IN_PASS(OTHERS)
        REPEAT_IN_PASS(OTHER_VALUES)
        transition parse_high_pull_key_00;
    }

    state parse_others_of_push {
        REPEAT_IN_PASS(OTHERS)
        REPEAT_IN_PASS(OTHER_VALUES)
        transition parse_high_value_00;
    }
#undef OTHERS
#undef OTHER_VALUES

#define PULL_KEY(nn, i, next) state parse_high_pull_key_##nn { \
    packet.extract(hdr.keys[i]); \
    hdr.values[i].setValid(); \
    hdr.values[i].value = 0; \
    transition select(hdr.rpc.count) { PASS_LANES + i + 1: accept; default: parse_high_pull_key_##next; } }
    CHAIN_TO_15(PULL_KEY)
#undef PULL_KEY

#define KEY(nn, i, next) state parse_high_key_##nn { \
    packet.extract(hdr.keys[i]); \
    transition select(hdr.rpc.count) { PASS_LANES + i + 1: parse_others_of_push; default: parse_high_key_##next; } }
    CHAIN_TO_15(KEY)
#undef KEY

#define VALUE(nn, i, next) state parse_high_value_##nn { \
    packet.extract(hdr.values[i]); \
    transition select(hdr.rpc.count) { PASS_LANES + i + 1: accept; default: parse_high_value_##next; } }
    CHAIN_TO_15(VALUE)
#undef VALUE

    // The first pass lets no RPC of more lanes come back.
    state parse_high_pull_key_16 {
        transition reject;
    }

    state parse_high_key_16 {
        transition reject;
    }

    state parse_high_value_16 {
        transition reject;
    }
}
