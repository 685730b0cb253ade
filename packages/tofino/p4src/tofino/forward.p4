// Forwards a frame by its destination address. Without an entry the frame is dropped.
control Forward(inout headers_t hdr, inout metadata_t meta, inout port_t egress_port) {
    action forward_to(port_t port) {
        egress_port = port;
    }

    action no_route() {
        meta.kind = PacketKind.DROPPED;
        meta.drop_reason = DropReason.NO_ROUTE;
    }

    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; @defaultonly no_route; }
        const default_action = no_route();
        size = 1024;
    }

    apply {
        forward.apply();
    }
}
