// Headers on the wire, and the metadata that controls pass on to each other.
#ifndef ATP_HEADERS_P4
#define ATP_HEADERS_P4

#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"

typedef bit<32> workers_t;          // a bit for each worker of a job
typedef bit<32> owner_t;            // job ++ sequence number; 0 for none

const bit<16> PACKET_IPV4_BYTES = IPV4_BYTES + UDP_BYTES + 14 + 4 * LANES + 12;     // with atp_t (14) and tensor_t (12)
const bit<8>  CONGESTION_EXPERIENCED = 3;                                           // of the IPv4 header's diffserv

header atp_t {
    workers_t bitmap;       // workers whose values the packet has
    bit<8>    workers;      // number of workers of the job
    bit<1>    overflow;     // the values are floats, or the server asks for floats
    bit<2>    server;
    bit<1>    second_pass;  // not used: the published program passes a packet twice
    bit<1>    ecn;          // congestion experienced
    bit<1>    is_resent;
    bit<1>    collided;     // the cell has another owner
    bit<1>    is_ack;
    bit<16>   app;          // the job
    bit<16>   sequence;
    bit<16>   cell;
    bit<16>   second_cell;  // not used
}

header values_t {
#define VALUE(nn, i) bit<32> v##nn;
    REPEAT(VALUE)
#undef VALUE
}

header tensor_t {
    bit<64> key;            // number of the tensor
    bit<32> length;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    atp_t      atp;
    values_t   values;
    tensor_t   tensor;
}

enum PacketKind {
    OTHER,                          // of no job; forwarded by its destination address
    ATP,
    DROPPED                         // for `drop_reason`
}

enum Operation {
    NONE,
    WRITE,                          // the packet's values replace those of the cell
    ADD,
    READ
}

// Indices of counter `drops`.
enum bit<32> DropReason {
    PARSER_ERROR = 0,
    BAD_SHAPE    = 1,               // of another size, or for a cell that does not exist
    STALE_TENSOR = 2,               // with the tensor check: a first copy of an older tensor than the cell's
    NO_GROUP     = 3                // an acknowledgement that does not come from a server of its job
}
const bit<32> DROP_REASONS = 4;

// Indices of counter `packets`: what became of the packets of each job.
enum bit<32> PacketOutcome {
    CONSUMED     = 0,               // waits for the packets of other workers
    COMPLETED    = 1,               // the last of its cell, which takes the sums to the server
    REPEATED     = 2,               // came before, to a cell that is complete: takes the sums to the server
    IGNORED      = 3,               // came before, to a cell that is not complete
    COLLIDED     = 4,               // goes to the server, as its cell is taken
    FLUSHED      = 5,               // resent: takes the partial sum to the server
    PASSED       = 6,               // goes on as it is: resent, floats, or at another switch's levels
    ACKNOWLEDGED = 7                // goes from the server to all workers, or to those of this level
}
const bit<32> PACKET_OUTCOMES = 8;

struct metadata_t {
    PacketKind kind;
    DropReason drop_reason;         // of a packet of kind DROPPED
    bool       has_route;
    bit<1>     check_tensor;        // whether the tensors of packet and cell are compared
    bit<19>    ecn_depth;           // queue length in packets from which on packets are marked
    bit<8>     children;            // packets of a complete cell: one of each worker, or of each child of this level
    bool       is_root;             // the second of two levels, at the switch of the server
    bool       passes_on;           // the packet goes on as it is
    bit<32>    index;               // of the cell
    bool       is_congested;
    bool       is_owner;            // the packet owns the cell
    bool       is_new_tensor;       // the cell has the same owner, with an older tensor
    workers_t  seen_before;         // workers whose packets came earlier
    bool       is_fresh;            // the packet has values of a worker that the cell lacks
    bool       is_complete;         // the cell has all packets, or is freed by an acknowledgement or a resent packet
    Operation  operation;
    bool       is_forwarded;        // by its destination address
}

#endif
