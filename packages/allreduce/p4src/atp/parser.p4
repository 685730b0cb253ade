parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    // Options and fragments are not parsed further.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                          hdr.ipv4.protocol) {
            (4, 5, 0 &&& IPV4_MORE_FRAGMENTS, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    // ATP_PORT is the port of servers: workers send to it, and acknowledgements come from it.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.src_port, hdr.udp.dst_port) {
            (_, ATP_PORT): parse_atp;
            (ATP_PORT, _): parse_atp;
            default: accept;
        }
    }

    state parse_atp {
        packet.extract(hdr.atp);
        packet.extract(hdr.values);
        packet.extract(hdr.tensor);
        transition accept;
    }
}
