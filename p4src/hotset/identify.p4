// Who is talking, for which job, about which parameter server, and is it plugged in where it should be?
control Identify(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std,
                 out drop_reason_t reason) {
    // Also the proxy's demultiplexer. An agent that restarts comes back with a new epoch.
    action set_worker(bit<16> row, mac_addr_t mac, ipv4_addr_t addr, bit<16> udp_port, port_t port,
                      bit<8> kind) {
        meta.row = row;
        meta.worker.mac = mac;
        meta.worker.addr = addr;
        meta.worker.udp_port = udp_port;
        meta.worker.port = port;
        meta.is_privileged = kind == KIND_PRIVILEGED;
    }

    action unknown_worker() {
        meta.dropped = true;
        reason = DROP_UNKNOWN_WORKER;
    }

    table workers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.worker: exact @name("worker");
            hdr.rpc.epoch: exact @name("epoch");
        }
        actions = { set_worker; @defaultonly unknown_worker; }
        const default_action = unknown_worker();
        size = ROWS;
    }

    action set_job(bit<1> offload, bit<1> proxy) {
        meta.offload = offload;
        meta.proxy = proxy;
    }

    action unknown_job() {
        meta.dropped = true;
        reason = DROP_UNKNOWN_JOB;
    }

    table jobs {
        key = { hdr.rpc.job: exact @name("job"); }
        actions = { set_job; @defaultonly unknown_job; }
        const default_action = unknown_job();
        size = 64;
    }

    // The PS's service address belongs to the switch: workers never see the server's own.
    action set_server(mac_addr_t mac, ipv4_addr_t addr, bit<16> udp_port, port_t port,
                      mac_addr_t service_mac, ipv4_addr_t service_addr, bit<16> service_port) {
        meta.server.mac = mac;
        meta.server.addr = addr;
        meta.server.udp_port = udp_port;
        meta.server.port = port;
        meta.service.mac = service_mac;
        meta.service.addr = service_addr;
        meta.service.udp_port = service_port;
    }

    action unknown_server() {
        meta.dropped = true;
        reason = DROP_UNKNOWN_SERVER;
    }

    table servers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.ps: exact @name("ps");
        }
        actions = { set_server; @defaultonly unknown_server; }
        const default_action = unknown_server();
        size = 256;
    }

    apply {
        reason = DROP_WRONG_PORT;
        servers.apply();
        if (!meta.dropped) {
            jobs.apply();
        }
        if (!meta.dropped && !meta.is_control) {
            workers.apply();
        }
        if (!meta.dropped) {
            if (meta.is_answer || meta.is_control) {
                meta.dropped = std.ingress_port != meta.server.port;
            } else {
                meta.dropped = std.ingress_port != meta.worker.port;
            }
        }
    }
}
