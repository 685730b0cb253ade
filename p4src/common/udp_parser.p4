// Extracts Ethernet, IPv4 and UDP. Fragments are not parsed further, because only the first one has ports, and no packet
// with IP options is. Without a UDP header both ports are 0.
parser UdpParser(packet_in packet, out ethernet_t ethernet, out ipv4_t ipv4, out udp_t udp,
                 out bit<16> src_port, out bit<16> dst_port) {
    state start {
        src_port = 0;
        dst_port = 0;
        packet.extract(ethernet);
        transition select(ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(ipv4);
        transition select(ipv4.version, ipv4.ihl, ipv4.flags, ipv4.frag_offset, ipv4.protocol) {
            (4, 5, 0 &&& IPV4_MORE_FRAGMENTS, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(udp);
        src_port = udp.src_port;
        dst_port = udp.dst_port;
        transition accept;
    }
}
