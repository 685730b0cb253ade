// The program's part for rows of 16 values: a register array for each value of a row, and RPCs of other dims.
#ifndef ROWS_OF_16_P4
#define ROWS_OF_16_P4

#if DIM == 16
// The first value's registers also count the pushes of a row (lane_aggregate.p4).
#define EACH_LATER_VALUE(X) X(01, 1) X(02, 2) X(03, 3) X(04, 4) X(05, 5) X(06, 6) X(07, 7) LANES_8_TO_15(X)

// Dims of RPCs, and the shapes with which requests of other dims are relayed to their servers: as many lanes as agents
// put into an RPC.
#define EACH_DIM(X) X(1) X(4) X(8) X(16) X(32) X(64) X(128)
#define RELAYED_1(nn, i) SHAPES_OF(1, i, relayed_request)
#define RELAYED_4(nn, i) SHAPES_OF(4, i, relayed_request)
#define RELAYED_8(nn, i) SHAPES_OF(8, i, relayed_request)
#define RELAYED_32(nn, i) SHAPES_OF(32, i, relayed_request)
#define RELAYED_64(nn, i) SHAPES_OF(64, i, relayed_request)
#define RELAYED_128(nn, i) SHAPES_OF(128, i, relayed_request)
#define RELAYED_SHAPES REPEAT(RELAYED_1) REPEAT(RELAYED_4) \
    LANES_0_TO_7(RELAYED_8) LANES_8_TO_15(RELAYED_8) LANES_0_TO_3(RELAYED_32) \
    RELAYED_64(00, 0) RELAYED_64(01, 1) RELAYED_128(00, 0)

// Adds to or reads one value of a row, but the first.
control ValueAggregate(in metadata_t meta, inout word_t word, in bit<1> is_served, in bit<16> slot) {
    WORD_REGISTER(bit<32>, values, SLOTS)

    BEGIN_WORD_ACTION(bit<32>, add, values)
        cell = cell + word.value;
        result = 0;
    END_WORD_ACTION(values)
    BEGIN_WORD_ACTION(bit<32>, read, values)
        result = cell;
    END_WORD_ACTION(values)

    action push() {
        bit<32> none;
        EXECUTE(none, add, (bit<32>)slot);
    }

    action pull() {
        EXECUTE(word.value, read, (bit<32>)slot);
    }

    table aggregate {
        key = {
            meta.work: exact @name("work");
            meta.verdict: exact @name("verdict");
            is_served: exact @name("is_served");
        }
        actions = { push; pull; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8;
        const entries = {
            (Work.PUSH, Turn.NEW, 1): push();
            (Work.COUNTED_PUSH, Turn.NEW, 1): push();
            (Work.PULL, Turn.NEW, 1): pull();
            (Work.PULL, Turn.DUPLICATE, 1): pull();
            (Work.COUNTED_PULL, Turn.NEW, 1): pull();
            (Work.COUNTED_PULL, Turn.DUPLICATE, 1): pull();
        }
    }

    apply {
        aggregate.apply();
    }
}
#else
#define EACH_DIM(X) X(1)
#define RELAYED_SHAPES
#endif

#endif
