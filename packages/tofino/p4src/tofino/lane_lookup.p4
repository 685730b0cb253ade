// Looks up the key of one lane; the entries are those of hotset/lane_lookup.p4. Each lane writes bits of its own:
// tables of one stage cannot write the same container, so no bitmap can be collected here.
control LaneLookup(inout lane_t lane, in bit<16> job, in bit<8> dim, in bit<64> parameter) {
    action hot(bit<16> slot) {
        lane.slot = slot;
        lane.is_hot = 1;
    }

    action reserved(bit<16> slot) {
        lane.slot = slot;
        lane.is_moving = 1;
    }

    action draining(bit<16> slot) {
        lane.slot = slot;
        lane.is_moving = 1;
    }

    action parked(bit<16> slot) {
    }

    table hot_params {
        key = {
            job: exact @name("job");
            dim: exact @name("dim");
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
