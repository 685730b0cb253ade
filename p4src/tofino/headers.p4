// The metadata that controls pass on to each other. PHV is short: 16 lanes of keys and values take 1,536 of its
// 4,096 bits.
#ifndef TOFINO_HEADERS_P4
#define TOFINO_HEADERS_P4

#ifndef ROWS
#define ROW_BITS 10             // callers, as a power of two: cells of 64 bits for 64 slots of each fill a stage
#define ROWS (1 << ROW_BITS)
#endif
#define CELL_BITS 16            // ROW_BITS and those of the slot, WINDOW_BITS

#include "hotset/rpc.p4"

// A field of all lanes, the first lane's in the lowest bit.
#define GATHERED_4(field) meta.lane_03.field JOIN meta.lane_02.field JOIN meta.lane_01.field JOIN meta.lane_00.field
#define GATHERED_8(field) meta.lane_07.field JOIN meta.lane_06.field JOIN meta.lane_05.field \
    JOIN meta.lane_04.field JOIN GATHERED_4(field)
#define GATHERED_16(field) meta.lane_15.field JOIN meta.lane_14.field JOIN meta.lane_13.field \
    JOIN meta.lane_12.field JOIN meta.lane_11.field JOIN meta.lane_10.field JOIN meta.lane_09.field \
    JOIN meta.lane_08.field JOIN GATHERED_8(field)
#if LANES == 4
#define GATHERED(field) 4w0 JOIN GATHERED_4(field)
#elif LANES == 8
#define GATHERED(field) GATHERED_8(field)
#else
#define GATHERED(field) GATHERED_16(field)
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
    bit<8>     remaining;       // hotset/parser.p4 counts lanes and bytes in these two
    bit<16>    prefix_bytes;
    PacketKind kind;
    DropReason drop_reason;     // of a packet of kind DROPPED
    bool       is_malformed;    // the packet has more lanes than the program
    bool       bad_checksum;
    bit<1>     bad_length;
    bit<1>     wrong_port;
    bit<1>     has_server;      // the tables know the server, the job, the caller
    bit<1>     has_job;
    bit<1>     has_worker;
    bit<1>     is_answered;     // by the switch alone
    CallerKind caller;
    bit<1>     offload;
    bit<1>     proxy;
    bit<16>    row;             // of the caller, in the exactly-once cells
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
    REPEAT(LANE)
#undef LANE
}

#endif
