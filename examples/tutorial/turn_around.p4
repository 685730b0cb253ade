// Makes a request its own answer, and sends it back to where it came from.
control TurnAround(inout headers_t hdr, inout standard_metadata_t std) {
    apply {
        mac_addr_t mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        ipv4_addr_t addr = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = addr;
        bit<16> port = hdr.udp.src_port;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = port;
        hdr.udp.checksum = 0;
        std.egress_spec = std.ingress_port;

        // An answer has no keys. That of a pull has values, that of a push has nothing but the header.
        bit<16> lane_bytes = 0;
        hdr.keys.pop_front(LANES);
        if (hdr.rpc.op == Op.PULL) {
            hdr.rpc.flags = FLAG_RESPONSE | FLAG_VALUES;
            lane_bytes = (bit<16>)hdr.rpc.count << 2;
        } else {
            hdr.rpc.flags = FLAG_RESPONSE;
            hdr.words.pop_front(LANES);
        }
        hdr.rpc.served = hdr.rpc.live;      // all lanes: no server has seen them
        hdr.udp.length = UDP_BYTES + RPC_BYTES + lane_bytes;
        hdr.ipv4.total_len = IPV4_BYTES + hdr.udp.length;
    }
}
