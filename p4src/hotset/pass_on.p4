// Passes on the packets of a server whose hot set is in another switch, its *home*. They go from a caller to the home,
// from there to the server, and back. Each switch on the way checks the ports: a host can send only as itself, and what
// comes from the side of the home has been checked there.
const port_t NO_PORT = 511;

control PassOn(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_caller_port(port_t port) {
        meta.worker.port = port;
    }

    table callers {
        key = {
            hdr.rpc.job: exact @name("job");
            hdr.rpc.worker: exact @name("worker");
        }
        actions = { set_caller_port; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.UNKNOWN_WORKER);
        size = CALLERS;
    }

    apply {
        if (meta.kind == PacketKind.REQUEST || meta.kind == PacketKind.ANSWER) {
            callers.apply();
        }
        bool is_to_server = meta.kind == PacketKind.REQUEST || meta.kind == PacketKind.COMMAND;
        port_t port = NO_PORT;
        if (meta.ingress_port == meta.home_port) {
            if (is_to_server) {
                port = meta.server.port;
            } else if (meta.kind == PacketKind.ANSWER) {
                port = meta.worker.port;
            }
        } else if (meta.kind == PacketKind.REQUEST && meta.ingress_port == meta.worker.port
                   || !is_to_server && meta.ingress_port == meta.server.port) {
            port = meta.home_port;
        }
        if (port == NO_PORT && meta.kind != PacketKind.DROPPED) {
            drop(meta, DropReason.WRONG_PORT);
        } else if (meta.kind != PacketKind.DROPPED) {
            meta.kind = PacketKind.PASSED_ON;
            std.egress_spec = port;
        }
    }
}
