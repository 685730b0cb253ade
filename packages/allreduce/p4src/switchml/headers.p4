// Headers on the wire, and the metadata that controls pass on to each other.
#ifndef SWITCHML_HEADERS_P4
#define SWITCHML_HEADERS_P4

#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"

// Design `exact` has a word of cut bits behind the values.
#ifdef HAS_CUT_BITS
const bit<16> CUT_BYTES = 4;
#else
const bit<16> CUT_BYTES = 0;
#endif

typedef bit<32> pool_index_t;
typedef bit<32> workers_t;          // a bit for each worker of a job

const bit<16> SWITCHML_PORT_MASK = 0xfff0;
const bit<16> PACKET_IPV4_BYTES  = IPV4_BYTES + UDP_BYTES
    + 8 + 2 + 4 * LANES + CUT_BYTES;                                                // switchml_t, exponents_t, values
const bit<32> POOL               = 2 * SLOTS;                                       // entries of both sets

header switchml_t {
    bit<4>  kind;
    bit<1>  unused;
    bit<3>  size;
    bit<8>  job;            // number of the all-reduce, modulo 256
    bit<32> chunk;          // number of the packet
    bit<1>  pool_set;
    bit<15> slot;
}

header exponents_t {
    bit<8> e0;              // signed
    bit<8> e1;
}

header values_t {
#define VALUE(nn, i) bit<32> v##nn;
    REPEAT(VALUE)
#undef VALUE
}

header cut_t {
    bit<32> bits;           // a bit for each value of `exact`: a worker has cut off low bits of its addend
}

struct headers_t {
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    udp_t       udp;
    switchml_t  switchml;
    exponents_t exponents;
    values_t    values;
    cut_t       cut;        // only of design `exact`
}

enum PacketKind {
    OTHER,                          // not of a worker in table `workers`; forwarded by its destination address
    REQUEST,                        // from a worker
    DROPPED                         // for `drop_reason`
}

// Indices of counter `drops`.
enum bit<32> DropReason {
    PARSER_ERROR = 0,
    BAD_SHAPE    = 1,               // of another size, or for a slot that the pool does not have
    STALE_CHUNK  = 2                // with the filter: of an older chunk than the one in its pool entry
}
const bit<32> DROP_REASONS = 3;

// Indices of counter `packets`: what became of the packets that reached the pool.
enum bit<32> PacketOutcome {
    CONSUMED      = 0,              // waits for the packets of other workers
    BROADCAST     = 1,              // the last of its chunk: the sum is sent to all workers
    RETRANSMITTED = 2,              // a retransmission, to an entry that is complete
    IGNORED       = 3,              // a retransmission, to an entry that is not complete
    TIMED_OUT     = 4               // a retransmission, after the slot's timeout: the sum is sent to all workers
}
const bit<32> PACKET_OUTCOMES = 5;

struct metadata_t {
    PacketKind    kind;
    DropReason    drop_reason;      // of a packet of kind DROPPED
    bool          has_route;
    bit<16>       receiver;         // number of the sender among the workers of all jobs; 0 is no worker
    bit<16>       group;            // multicast group of the workers of its job
    workers_t     worker;           // the bit of the sender
    bit<8>        worker_count;     // of its job
    bit<1>        filter_stale;     // whether StaleChunkFilter is on
    bit<32>       slot_timeout;     // us; 0 is never
    pool_index_t  index;            // slot ++ set
    bool          is_new_chunk;     // found by StaleChunkFilter
    bool          is_overdue;       // the entry has waited for longer than the slot timeout
    bool          timed_out;        // this packet completes the entry without the remaining workers
    workers_t     seen_before;      // workers whose packets came earlier
    bool          is_retransmit;
    bit<8>        remaining;        // workers whose packets had not come; 0 if all had, or none
}

#endif
