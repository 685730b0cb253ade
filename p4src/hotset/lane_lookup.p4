// Looks up the key of one lane. The lane of a key is a hash of the key (foundation/protocol/hashing.py).
//
// `hot`       hits for every caller
// `reserved`  arriving: the parameter server is about to move the value here. Hits for privileged callers only.
// `draining`  leaving: the parameter server is about to take the value back. Hits for privileged callers only.
// `parked`    offload is off for the job: the entry only keeps the slot, and misses.
control LaneLookup(inout bitmap_t hits, inout bit<16> lane_slot, in bitmap_t privileged_lanes, in bit<16> job,
                   in bit<64> parameter)
                  (bitmap_t lane) {
    action hot(bit<16> slot) {
        lane_slot = slot;
        hits = hits | lane;
    }

    action reserved(bit<16> slot) {
        lane_slot = slot;
        hits = hits | (lane & privileged_lanes);
    }

    action draining(bit<16> slot) {
        lane_slot = slot;
        hits = hits | (lane & privileged_lanes);
    }

    action parked(bit<16> slot) {
        lane_slot = slot;
    }

    table hot_params {
        key = {
            job: exact @name("job");
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
