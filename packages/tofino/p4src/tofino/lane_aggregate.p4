// Adds to or reads the value of one lane. A cell has the value and, beside it, the number of pushes that workers have
// added to it.
struct value_cell_t {
    bit<32> value;
    bit<32> pushes;
}

control LaneAggregate(in metadata_t meta, inout word_t word, in bit<1> is_live, in bit<1> is_served,
                      in bit<16> slot) {
    PAIR_REGISTER(value_cell_t, values, SLOTS)
    PACKET_COUNTER(lane_stats, LANE_EVENTS)

    // tna.p4 and v1model.p4 define these macros.
    BEGIN_PAIR_ACTION(value_cell_t, add, values, bit<32>)
        cell.value = cell.value + word.value;
        result = 0;
    END_PAIR_ACTION(value, pushes, values)
    BEGIN_PAIR_ACTION(value_cell_t, add_and_count, values, bit<32>)
        cell.value = cell.value + word.value;
        cell.pushes = cell.pushes + 1;
        result = 0;
    END_PAIR_ACTION(value, pushes, values)
    BEGIN_PAIR_ACTION(value_cell_t, read, values, bit<32>)
        result = cell.value;
    END_PAIR_ACTION(value, pushes, values)
    // Operations of workers are counted, those of privileged callers are not. A push does not use the result.
    action push() {
        bit<32> none;
        EXECUTE(none, add, (bit<32>)slot);
    }

    action counted_push() {
        bit<32> none;
        EXECUTE(none, add_and_count, (bit<32>)slot);
        COUNT(lane_stats, LaneEvent.HIT);
    }

    action pull() {
        EXECUTE(word.value, read, (bit<32>)slot);
    }

    action counted_pull() {
        EXECUTE(word.value, read, (bit<32>)slot);
        COUNT(lane_stats, LaneEvent.HIT);
    }

    action miss() {
        COUNT(lane_stats, LaneEvent.MISS);
    }

    table aggregate {
        key = {
            meta.work: exact @name("work");
            meta.verdict: exact @name("verdict");
            is_live: exact @name("is_live");
            is_served: exact @name("is_served");
        }
        actions = { push; counted_push; pull; counted_pull; miss; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
        const entries = {
            // A duplicate push adds nothing, and duplicates are not counted.
            (Work.PUSH, Turn.NEW, 1, 1): push();
            (Work.COUNTED_PUSH, Turn.NEW, 1, 1): counted_push();
            (Work.COUNTED_PUSH, Turn.NEW, 1, 0): miss();
            (Work.PULL, Turn.NEW, 1, 1): pull();
            (Work.PULL, Turn.DUPLICATE, 1, 1): pull();
            (Work.COUNTED_PULL, Turn.NEW, 1, 1): counted_pull();
            (Work.COUNTED_PULL, Turn.NEW, 1, 0): miss();
            (Work.COUNTED_PULL, Turn.DUPLICATE, 1, 1): pull();
        }
    }

    apply {
        aggregate.apply();
    }
}
