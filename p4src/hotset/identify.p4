// Finds the caller, its job and the parameter server, and drops a packet that comes from another port than theirs.
control Identify(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    FromBundle() from_bundle;

    // The service address belongs to the switch. Workers never see the address of the server itself.
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

    // The hot set of this server is in another switch, toward which `home_port` is. `server_port` is toward the server,
    // or `NO_PORT` if no packet comes back from there on its way to the server.
    action set_home(port_t home_port, port_t server_port) {
        meta.is_passed_on = true;
        meta.home_port = home_port;
        meta.server.port = server_port;
    }

    table servers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.ps: exact @name("ps");
        }
        actions = { set_server; set_home; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.UNKNOWN_SERVER);
        size = 256;
    }

    action set_job(bit<1> offload, bit<1> proxy) {
        meta.offload = offload;
        meta.proxy = proxy;
    }

    table jobs {
        key = { hdr.rpc.job: exact @name("job"); }
        actions = { set_job; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.UNKNOWN_JOB);
        size = 64;
    }

    // An agent that restarts comes back with a new epoch. For an answer this table is the proxy's demultiplexer.
    action set_worker(bit<16> caller, mac_addr_t mac, ipv4_addr_t addr, bit<16> udp_port, port_t port,
                      CallerKind kind) {
        meta.caller = caller;
        meta.worker.mac = mac;
        meta.worker.addr = addr;
        meta.worker.udp_port = udp_port;
        meta.worker.port = port;
        meta.is_privileged = kind == CallerKind.PRIVILEGED;
    }

    table workers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.worker: exact @name("worker");
            hdr.rpc.epoch: exact @name("epoch");
        }
        actions = { set_worker; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.UNKNOWN_WORKER);
        size = CALLERS;
    }

    apply {
        if (servers.apply().hit && !meta.is_passed_on) {
            jobs.apply();
        }
        meta.ingress_port = std.ingress_port;
        from_bundle.apply(meta.ingress_port);
        if (meta.is_from_switch && !(meta.is_passed_on && meta.ingress_port == meta.home_port)) {
            drop(meta, DropReason.BAD_SHAPE);
        }
        if (!meta.is_passed_on) {
            if (meta.kind == PacketKind.REQUEST || meta.kind == PacketKind.ANSWER) {
                workers.apply();
            }
            bool is_from_server = meta.kind == PacketKind.ANSWER || meta.kind == PacketKind.CONTROL_ANSWER;
            if (meta.kind == PacketKind.REQUEST && meta.ingress_port != meta.worker.port
                || is_from_server && meta.ingress_port != meta.server.port) {
                drop(meta, DropReason.WRONG_PORT);
            }
        }
    }
}
