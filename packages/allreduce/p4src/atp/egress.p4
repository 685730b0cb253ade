// Addresses an acknowledgement to its worker: each copy of a multicast has the number of its receiver as `egress_rid`.
// A packet that has left a long queue is marked.
control HotlineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_receiver(mac_addr_t mac, ipv4_addr_t addr) {
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.dst_addr = addr;
    }

    table receivers {
        key = { std.egress_rid: exact @name("receiver"); }
        actions = { set_receiver; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        if (meta.kind == PacketKind.ATP) {
            receivers.apply();
            if (std.deq_qdepth >= meta.ecn_depth) {
                hdr.ipv4.diffserv = hdr.ipv4.diffserv | CONGESTION_EXPERIENCED;
                hdr.atp.ecn = 1;
            }
        }
    }
}
