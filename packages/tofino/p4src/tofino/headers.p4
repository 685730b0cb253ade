// The metadata that controls pass on to each other. PHV is short: 16 lanes of keys and values take 1,536 of its
// 4,096 bits.
#ifndef TOFINO_HEADERS_P4
#define TOFINO_HEADERS_P4

// Callers: 2^CALLER_BITS. A stage of a Tofino 1 has room for 65,536 cells of 64 bits, one of a Tofino 2 for half.
#ifndef CALLER_BITS
#if __TARGET_TOFINO__ == 2
#define CALLER_BITS 9
#else
#define CALLER_BITS 10
#endif
#endif
#define CALLERS (1 << CALLER_BITS)
#define CELL_BITS (CALLER_BITS + WINDOW_BITS)

#include "hotset/rpc.p4"

// The rows that the program serves: rows of one value, in as many lanes as an RPC has, or one row of 16 values in an RPC.
// EACH_LANE is for what exists once for each look-up, and EACH_VALUE for what exists once for each register array.
#ifndef DIM
#define DIM 1
#endif
#if DIM == 1
#define EACH_LANE(X) REPEAT(X)
#define EACH_VALUE(X) REPEAT(X)
#elif DIM == 16
#if LANES != 32
#error "rows of 16 values come in RPCs of agents, which have bitmaps of 32 lanes"
#endif
#define EACH_LANE(X) X(00, 0)
#define EACH_VALUE(X) LANES_0_TO_7(X) LANES_8_TO_15(X)
#else
#error "DIM must be 1 or 16"
#endif

// A field of all lanes, the first lane's in the lowest bit.
#define GATHERED_0_TO_3(field) meta.lane_03.field JOIN meta.lane_02.field JOIN meta.lane_01.field \
    JOIN meta.lane_00.field
#define GATHERED_4_TO_7(field) meta.lane_07.field JOIN meta.lane_06.field JOIN meta.lane_05.field \
    JOIN meta.lane_04.field
#define GATHERED_8_TO_15(field) meta.lane_15.field JOIN meta.lane_14.field JOIN meta.lane_13.field \
    JOIN meta.lane_12.field JOIN meta.lane_11.field JOIN meta.lane_10.field JOIN meta.lane_09.field \
    JOIN meta.lane_08.field
#define GATHERED_16_TO_23(field) meta.lane_23.field JOIN meta.lane_22.field JOIN meta.lane_21.field \
    JOIN meta.lane_20.field JOIN meta.lane_19.field JOIN meta.lane_18.field JOIN meta.lane_17.field \
    JOIN meta.lane_16.field
#define GATHERED_24_TO_31(field) meta.lane_31.field JOIN meta.lane_30.field JOIN meta.lane_29.field \
    JOIN meta.lane_28.field JOIN meta.lane_27.field JOIN meta.lane_26.field JOIN meta.lane_25.field \
    JOIN meta.lane_24.field
#define GATHERED_0_TO_7(field) GATHERED_4_TO_7(field) JOIN GATHERED_0_TO_3(field)
#define GATHERED_0_TO_15(field) GROUP(GATHERED_8_TO_15(field)) JOIN GROUP(GATHERED_0_TO_7(field))
#define GATHERED_16_TO_31(field) GROUP(GATHERED_24_TO_31(field)) JOIN GROUP(GATHERED_16_TO_23(field))
#if DIM == 16
#define GATHERED(field) 31w0 JOIN meta.lane_00.field
#elif LANES == 4
#define GATHERED(field) 4w0 JOIN GATHERED_0_TO_3(field)
#elif LANES == 8
#define GATHERED(field) GATHERED_0_TO_7(field)
#elif LANES == 16
#define GATHERED(field) GATHERED_0_TO_15(field)
#else
#define GATHERED(field) GROUP(GATHERED_16_TO_31(field)) JOIN GROUP(GATHERED_0_TO_15(field))
#endif

// What a lane's look-up has found.
struct lane_t {
    bit<16> slot;
    bit<1>  is_hot;         // for every caller
    bit<1>  is_moving;      // reserved or draining: for privileged callers
}

// What the registers of a packet's lanes have to do.
enum bit<8> Work {
    NOTHING      = 0,
    PUSH         = 1,
    COUNTED_PUSH = 2,       // of a worker
    PULL         = 3,
    COUNTED_PULL = 4
}

// What the exactly-once cell says of a request.
enum bit<8> Turn {
    NONE      = 0,          // no request, or dropped
    NEW       = 1,
    DUPLICATE = 2
}

struct metadata_t {
    bit<8>     remaining;       // parser_v1model.p4 counts lanes and bytes in these two
    bit<16>    prefix_bytes;
    PacketKind kind;
    DropReason drop_reason;     // of a packet of kind DROPPED
    bool       is_malformed;    // the packet has more lanes than the program
    bool       bad_checksum;
    bit<1>     bad_length;
    bit<1>     wrong_port;
    bit<1>     is_relayed;      // a request with rows of another dim, all of which its server serves
    bit<1>     has_server;      // the tables know the server, the job, the caller
    bit<1>     has_job;
    bit<1>     has_worker;
    bit<1>     is_answered;     // by the switch alone
    CallerKind caller;
    bit<1>     offload;
    bit<1>     proxy;
    bit<16>    caller_number;   // in the exactly-once cells
    endpoint_t worker;
    endpoint_t server;
    endpoint_t service;
    bit<16>    udp_length;      // that a packet of this shape has
    bit<16>    total_len;
    bit<32>    turn;
    bit<32>    previous_turn;
    bit<32>    last_turn;       // of the slot, before this packet
    bit<32>    ahead;           // turns since the last one of the slot
    bit<CELL_BITS> cell;
    bitmap_t   hot;             // lanes whose key is in the switch for every caller,
    bitmap_t   moving;          // or for privileged callers
    bitmap_t   served;          // lanes that the switch serves
    Work       work;
    Turn       verdict;
#define LANE(nn, i) lane_t lane_##nn;
    EACH_LANE(LANE)
#undef LANE
}

#endif
