// One lane's share of the hot set. A key's lane is a hash of the key (foundation/protocol/hashing.py).
//
// `hot`       served for everyone
// `reserved`  arriving: its PS is about to move the value here
// `draining`  leaving: its PS is about to take the value home
// `parked`    offload is off for the job: the entry only keeps the place
control LaneLookup(inout bitmap_t hits, inout bit<16> lane_slot, in bitmap_t in_reach, in bit<16> job,
                   in bit<64> parameter)
                  (bitmap_t lane) {
    action hot(bit<16> slot) {
        lane_slot = slot;
        hits = hits | lane;
    }

    action in_motion(bit<16> slot) {
        lane_slot = slot;
        hits = hits | (lane & in_reach);
    }

    action reserved(bit<16> slot) {
        in_motion(slot);
    }

    action draining(bit<16> slot) {
        in_motion(slot);
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
