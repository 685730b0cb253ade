// Addresses a result to its worker. Each copy of a multicast has the number of its receiver as `egress_rid`.
control HotlineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_receiver(mac_addr_t mac, ipv4_addr_t addr) {
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.diffserv = 0;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = addr;
        bit<16> worker_port = hdr.udp.src_port;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = worker_port;
        hdr.udp.checksum = 0;
        hdr.switchml.kind = KIND;
        hdr.switchml.unused = 0;
    }

    table receivers {
        key = { meta.receiver: exact @name("receiver"); }
        actions = { set_receiver; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        if (meta.receiver != 0) {
            if (std.egress_rid != 0) {
                meta.receiver = std.egress_rid;
            }
            receivers.apply();
        }
    }
}
