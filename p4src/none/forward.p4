// By destination address; what has no route is dropped.
control Forward(inout headers_t hdr, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action forward_to(port_t port) {
        forwarded.count();
        std.egress_spec = port;
    }

    action no_route() {
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
