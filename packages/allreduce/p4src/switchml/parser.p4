parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    UdpParser() udp_parser;
    bit<16> src_port;
    bit<16> dst_port;

    state start {
        udp_parser.apply(packet, hdr.ethernet, hdr.ipv4, hdr.udp, src_port, dst_port);
        transition select(dst_port) {
            SWITCHML_PORT &&& SWITCHML_PORT_MASK: parse_switchml;
            default: accept;
        }
    }

    state parse_switchml {
        packet.extract(hdr.switchml);
        packet.extract(hdr.exponents);
        packet.extract(hdr.values);
#ifdef HAS_CUT_BITS
        packet.extract(hdr.cut);
#endif
        transition accept;
    }
}
