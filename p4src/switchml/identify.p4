// Whose packet it is: a worker of a job is told by its addresses. Without an entry it is no packet of ours.
control Identify(inout headers_t hdr, inout metadata_t meta) {
    action set_worker(bit<16> receiver, bit<16> group, workers_t worker, bit<8> workers, bit<1> check,
                      bit<32> patience) {
        meta.receiver = receiver;
        meta.group = group;
        meta.worker = worker;
        meta.workers = workers;
        meta.check = check;
        meta.patience = patience;
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
        meta.receiver = 0;
        workers.apply();
    }
}
