// Looks up the key of one lane; the entries are those of hotset/lane_lookup.p4. Each lane writes bits of its own:
// tables of one stage cannot write the same container, so no bitmap can be collected here.
#ifdef TWO_PASSES
#define PASS_PARAMETER , in bit<1> is_second
#define PASS_KEY is_second: exact @name("pass");
#else
#define PASS_PARAMETER
#define PASS_KEY
#endif

control LaneLookup(inout lane_t lane, in bit<16> job, in bit<64> parameter PASS_PARAMETER) {
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
            parameter: exact @name("key");
            PASS_KEY
        }
        actions = { hot; reserved; draining; parked; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SLOTS;
    }

    apply {
        hot_params.apply();
    }
}
