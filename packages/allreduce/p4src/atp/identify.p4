// Finds the job of a packet, and the level at which this switch aggregates it. A packet without a job is forwarded like
// any other frame.
control Identify(in headers_t hdr, inout metadata_t meta) {
    action set_job(bit<1> check_tensor, bit<19> ecn_depth) {
        meta.kind = PacketKind.ATP;
        meta.check_tensor = check_tensor;
        meta.ecn_depth = ecn_depth;
    }

    table jobs {
        key = { hdr.atp.app: exact @name("app"); }
        actions = { set_job; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    action set_level(bit<8> children, bit<1> is_root) {
        meta.children = children;
        meta.is_root = is_root == 1;
    }

    action pass_on() {
        meta.passes_on = true;
    }

    // The packets to and from each server, in a network of switches. A single switch has no rows: its children are the
    // workers.
    table levels {
        key = {
            hdr.atp.app:    exact @name("app");
            hdr.atp.server: exact @name("server");
        }
        actions = { set_level; pass_on; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        meta.children = hdr.atp.workers;
        meta.is_root = false;
        meta.passes_on = false;
        if (jobs.apply().hit) {
            levels.apply();
            // A packet that found the cell of its first level taken does not try that of the root.
            if (meta.is_root && hdr.atp.collided == 1 && hdr.atp.is_ack == 0) {
                meta.passes_on = true;
            }
        }
    }
}
