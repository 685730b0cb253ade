// The chip's parser. A lane is a state, because no state may extract a lane whose number is in a variable; and each
// state compares the number of lanes of the packet with its own. The parser also makes the values of a pull valid:
// stages that answer four lanes at once cannot, as validity bits share a PHV container.
#include "chain.p4"
#if LANES == 4
#define CHAIN(X) CHAIN_TO_3(X)
#define BEYOND(state) state##_04
#elif LANES == 8
#define CHAIN(X) CHAIN_TO_7(X)
#define BEYOND(state) state##_08
#elif LANES == 16
#define CHAIN(X) CHAIN_TO_15(X)
#define BEYOND(state) state##_16
#else
#define CHAIN(X) CHAIN_TO_31(X)
#define BEYOND(state) state##_32
#endif

parser HotlineParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta.is_malformed = false;
        meta.bad_checksum = false;
        transition select(intrinsic.ingress_port) {
            SWITCH_CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.submit_to_ingress) {
            1: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.bad_checksum = ipv4_checksum.verify();    // true if the checksum is wrong
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
#if DIM == 1
        transition select(hdr.rpc.flags, hdr.rpc.count) {
            (_, 0): accept;
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_VALUES), _): parse_pull_key_00;
            (FLAG_KEYS &&& FLAG_KEYS, _): parse_key_00;
            (FLAG_VALUES &&& FLAG_VALUES, _): parse_value_00;
            default: accept;
        }
#else
        transition select(hdr.rpc.flags, hdr.rpc.dim, hdr.rpc.count) {
            (FLAG_KEYS &&& (FLAG_KEYS | FLAG_VALUES), DIM, 1): parse_pull_row;
            (FLAG_KEYS &&& FLAG_KEYS, DIM, 1): parse_row;
            (FLAG_VALUES &&& FLAG_VALUES, DIM, 1): parse_value_00;
            default: accept;
        }
#endif
    }

#if DIM == 1
#define PULL_KEY(nn, i, next) state parse_pull_key_##nn { \
    packet.extract(hdr.keys[i]); \
    hdr.words[i].setValid(); \
    hdr.words[i].value = 0; \
    transition select(hdr.rpc.count) { i + 1: accept; default: parse_pull_key_##next; } }
    CHAIN(PULL_KEY)
#undef PULL_KEY

#define KEY(nn, i, next) state parse_key_##nn { \
    packet.extract(hdr.keys[i]); \
    transition select(hdr.rpc.count) { i + 1: parse_value_00; default: parse_key_##next; } }
    CHAIN(KEY)
#undef KEY

#define VALUE(nn, i, next) state parse_value_##nn { \
    packet.extract(hdr.words[i]); \
    transition select(hdr.rpc.count) { i + 1: accept; default: parse_value_##next; } }
    CHAIN(VALUE)
#undef VALUE

    state BEYOND(parse_pull_key) {
        transition too_many_lanes;
    }

    state BEYOND(parse_key) {
        transition too_many_lanes;
    }

    state BEYOND(parse_value) {
        transition too_many_lanes;
    }

    state too_many_lanes {
        meta.is_malformed = true;
        transition accept;
    }
#else
    state parse_pull_row {
        packet.extract(hdr.keys[0]);
        transition make_value_00;
    }

#define MAKE_VALUE(nn, i, next) state make_value_##nn { \
    hdr.words[i].setValid(); \
    hdr.words[i].value = 0; \
    transition make_value_##next; }
    CHAIN_TO_15(MAKE_VALUE)
#undef MAKE_VALUE

    state make_value_16 {
        transition accept;
    }

    state parse_row {
        packet.extract(hdr.keys[0]);
        transition parse_value_00;
    }

#define VALUE(nn, i, next) state parse_value_##nn { \
    packet.extract(hdr.words[i]); \
    transition parse_value_##next; }
    CHAIN_TO_15(VALUE)
#undef VALUE

    state parse_value_16 {
        transition accept;
    }
#endif
}
