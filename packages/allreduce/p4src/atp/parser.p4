parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    UdpParser() udp_parser;
    bit<16> src_port;
    bit<16> dst_port;

    // ATP_PORT is the port of servers: workers send to it, and acknowledgements come from it.
    state start {
        udp_parser.apply(packet, hdr.ethernet, hdr.ipv4, hdr.udp, src_port, dst_port);
        transition select(src_port, dst_port) {
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
