// Traffic that is not ours: by destination address, so that people can ping in Mininet's CLI.
control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std,
                out drop_reason_t reason) {
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action forward_to(port_t port) {
        forwarded.count();
        std.egress_spec = port;
    }

    action no_route() {
        meta.dropped = true;
        reason = DROP_NO_ROUTE;
    }

    table forward {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward_to; @defaultonly no_route; }
        const default_action = no_route();
        counters = forwarded;
        size = 1024;
    }

    apply {
        reason = DROP_NO_ROUTE;
        forward.apply();
    }
}
