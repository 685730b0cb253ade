// Finds the worker that sent a packet by the packet's addresses. A packet without entry is forwarded like any frame.
control Identify(inout headers_t hdr, inout metadata_t meta) {
    action set_worker(bit<16> receiver, bit<16> group, workers_t worker, bit<8> worker_count, bit<1> filter_stale,
                      bit<32> slot_timeout) {
        meta.kind = PacketKind.REQUEST;
        meta.receiver = receiver;
        meta.group = group;
        meta.worker = worker;
        meta.worker_count = worker_count;
        meta.filter_stale = filter_stale;
        meta.slot_timeout = slot_timeout;
    }

    table workers {
        key = {
            hdr.ipv4.src_addr: exact @name("src_addr");
            hdr.ipv4.dst_addr: exact @name("dst_addr");
            hdr.udp.src_port:  exact @name("src_port");
        }
        actions = { set_worker; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        workers.apply();
    }
}
