// Finds the caller, its job and the parameter server, and drops a packet that comes from another port than theirs. The
// entries are those of hotset/identify.p4. The three tables are looked up at once, in the first stage; a fourth decides
// from what they have found, in the order of hotset's checks. A worker's `caller` is the number of its exactly-once cells.
control Identify(inout headers_t hdr, inout metadata_t meta, in port_t ingress_port) {
    action set_server(mac_addr_t mac, ipv4_addr_t addr, bit<16> udp_port, port_t port,
                      mac_addr_t service_mac, ipv4_addr_t service_addr, bit<16> service_port) {
        meta.has_server = 1;
        meta.server.mac = mac;
        meta.server.addr = addr;
        meta.server.udp_port = udp_port;
        meta.server.port = port;
        meta.service.mac = service_mac;
        meta.service.addr = service_addr;
        meta.service.udp_port = service_port;
    }

    table servers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.ps: exact @name("ps");
        }
        actions = { set_server; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    action set_job(bit<1> offload, bit<1> proxy) {
        meta.has_job = 1;
        meta.offload = offload;
        meta.proxy = proxy;
    }

    table jobs {
        key = { hdr.rpc.job: exact @name("job"); }
        actions = { set_job; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    action set_worker(bit<16> caller, mac_addr_t mac, ipv4_addr_t addr, bit<16> udp_port, port_t port,
                      CallerKind kind) {
        meta.has_worker = 1;
        meta.caller_number = caller;
        meta.worker.mac = mac;
        meta.worker.addr = addr;
        meta.worker.udp_port = udp_port;
        meta.worker.port = port;
        meta.caller = kind;
    }

    table workers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.worker: exact @name("worker");
            hdr.rpc.epoch: exact @name("epoch");
        }
        actions = { set_worker; @defaultonly NoAction; }
        const default_action = NoAction();
        size = CALLERS;
    }

    action refuse_length() {
        meta.bad_length = 1;
    }

    action refuse_port() {
        meta.wrong_port = 1;
    }

    table checks {
        key = {
            meta.kind: ternary @name("kind");
            meta.bad_length: ternary @name("bad_length");
            meta.has_server: ternary @name("has_server");
            meta.has_job: ternary @name("has_job");
            meta.has_worker: ternary @name("has_worker");
            meta.wrong_port: ternary @name("wrong_port");
            meta.caller: ternary @name("caller");
            meta.is_relayed: ternary @name("is_relayed");
        }
        actions = { drop(meta); @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8;
        const entries = {
            (_, 1, _, _, _, _, _, _): drop(meta, DropReason.BAD_LENGTH);
            (_, _, 0, _, _, _, _, _): drop(meta, DropReason.UNKNOWN_SERVER);
            (_, _, _, 0, _, _, _, _): drop(meta, DropReason.UNKNOWN_JOB);
            (PacketKind.REQUEST, _, _, _, 0, _, _, _): drop(meta, DropReason.UNKNOWN_WORKER);
            (PacketKind.ANSWER, _, _, _, 0, _, _, _): drop(meta, DropReason.UNKNOWN_WORKER);
            (_, _, _, _, _, 1, _, _): drop(meta, DropReason.WRONG_PORT);
            // The switch alone answers privileged callers, and has no rows of another dim.
            (_, _, _, _, _, _, CallerKind.PRIVILEGED, 1): drop(meta, DropReason.BAD_SHAPE);
        }
    }

    apply {
        servers.apply();
        jobs.apply();
        workers.apply();
        if (hdr.udp.length != meta.udp_length) {
            refuse_length();
        } else if (hdr.ipv4.total_len != meta.total_len) {
            refuse_length();
        }
        if (meta.kind == PacketKind.REQUEST) {
            if (ingress_port != meta.worker.port) {
                refuse_port();
            }
        } else if (ingress_port != meta.server.port) {
            refuse_port();
        }
        if (meta.kind != PacketKind.PACKET_OUT && meta.kind != PacketKind.OTHER && meta.kind != PacketKind.DROPPED) {
            checks.apply();
        }
    }
}
