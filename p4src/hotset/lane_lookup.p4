// Looks up the row of one lane. The lane of a row is a hash of its key over the lanes that RPCs of its dim have
// (src/foundation/protocol/hashing.py).
//
// `hot`       hits for every caller
// `reserved`  arriving: the parameter server is about to move the values here. Hits for privileged callers only.
// `draining`  leaving: the parameter server is about to take the values back. Hits for privileged callers only.
// `parked`    offload is off for the job: the entry only keeps the slot, and misses.
control LaneLookup(inout metadata_t meta, inout bit<16> lane_slot, in rpc_t rpc, in bit<64> parameter)
                  (bitmap_t lane) {
    action hot(bit<16> slot) {
        lane_slot = slot;
        meta.hits = meta.hits | lane;
    }

    action reserved(bit<16> slot) {
        lane_slot = slot;
        meta.hits = meta.hits | (lane & meta.privileged_lanes);
    }

    action draining(bit<16> slot) {
        lane_slot = slot;
        meta.hits = meta.hits | (lane & meta.privileged_lanes);
    }

    action parked(bit<16> slot) {
        lane_slot = slot;
    }

    table hot_params {
        key = {
            rpc.job: exact @name("job");
            rpc.dim: exact @name("dim");
            parameter: exact @name("key");
        }
        actions = { hot; reserved; draining; parked; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SLOTS;
    }

    apply {
        hot_params.apply();
    }
}
