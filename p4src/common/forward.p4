// Forwards a frame by its destination address. Without an entry the frame is dropped, and `meta.has_route` is false.
control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action forward_to(port_t port) {
        forwarded.count();
        meta.has_route = true;
        std.egress_spec = port;
    }

    action no_route() {
        meta.has_route = false;
        mark_to_drop(std);
    }

    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; @defaultonly no_route; }
        const default_action = no_route();
        counters = forwarded;
        size = 1024;
    }

    apply {
        forward.apply();
    }
}
