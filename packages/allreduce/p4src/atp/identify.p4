// Finds the job of a packet. A packet without a job is forwarded like any other frame.
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

    apply {
        jobs.apply();
    }
}
