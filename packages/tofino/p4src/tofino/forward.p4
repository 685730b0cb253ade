// Forwards a frame by its destination address. Without an entry the frame is dropped.
control Forward(inout headers_t hdr, inout metadata_t meta, inout port_t egress_port) {
    action forward_to(port_t port) {
        egress_port = port;
    }

    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.NO_ROUTE);
        size = 1024;
    }

    apply {
        forward.apply();
    }
}
