// Headers on the wire, and the metadata that controls pass on to each other.
#ifndef HEADERS_P4
#define HEADERS_P4

#include "common/constants.p4"
#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"

typedef bit<LANES> bitmap_t;        // a bit for each lane

const bit<16> RPC_BYTES        = 44 + 3 * (LANES / 8);
const bit<16> KEY_BYTES        = 8;
const bit<16> VALUE_BYTES      = 4;
const bit<16> PACKET_OUT_BYTES = 2;

// A frame from the controller. It leaves by `egress_port` as it is, or, if `submit_to_ingress` is 1, it is processed
// as if it had arrived on the CPU port.
@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<1> submit_to_ingress;
    bit<6> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> _pad;
}

header rpc_t {
    bit<8>   version;
    Op       op;
    bit<16>  flags;
    bit<16>  job;
    bit<16>  worker;
    bit<32>  epoch;
    bit<16>  ps;
    bit<8>   count;         // lanes in this packet
    bit<8>   reserved;
    bit<32>  seq;
    bit<32>  iteration;
    bitmap_t live;          // lanes in use
    bitmap_t served;        // lanes that the switch has served
    bitmap_t refused;       // lanes whose keys the parameter server has given away
    bit<64>  t0;            // ns, the sender's clock
    bit<32>  ps_proc;       // ns
    bit<32>  ps_queue;      // ns
    bit<32>  residence;     // us in the switch, all passes together
}

header key_t {
    bit<64> key;
}

header value_t {
    bit<32> value;
}

struct headers_t {
    packet_out_t   packet_out;
    packet_in_t    packet_in;
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    udp_t          udp;
    rpc_t          rpc;
    key_t[LANES]   keys;
    value_t[LANES] values;
}

enum PacketKind {
    PACKET_OUT,             // leaves by the port that the controller has chosen
    OTHER,                  // carries no RPC, and is forwarded by its destination address
    REQUEST,                // from a worker, or from a privileged caller
    ANSWER,                 // from a parameter server to a worker
    CONTROL_ANSWER,         // from a parameter server to the controller
    DROPPED                 // for `drop_reason`
}

// Indices of counter `drops`.
enum bit<32> DropReason {
    PARSER_ERROR   = 0,
    BAD_CHECKSUM   = 1,
    FRAGMENT       = 2,
    BAD_LENGTH     = 3,
    BAD_SHAPE      = 4,
    UNKNOWN_WORKER = 5,
    WRONG_PORT     = 6,
    UNKNOWN_JOB    = 7,
    UNKNOWN_SERVER = 8,
    STALE_TURN     = 9,
    AHEAD_TURN     = 10,
    NO_ROUTE       = 11,
    WRONG_VERSION  = 12
}
const bit<32> DROP_REASONS = 16;        // cells, of which some are spare

// The addresses of a host and the port it is connected to.
struct endpoint_t {
    mac_addr_t  mac;
    ipv4_addr_t addr;
    bit<16>     udp_port;
    port_t      port;
}

struct metadata_t {
    bit<8>     remaining;       // lanes that are not parsed yet
    bit<16>    prefix_bytes;    // of the packet-out header
    PacketKind kind;
    DropReason drop_reason;     // of a packet of kind DROPPED
    bool       has_route;
    bool       is_privileged;
    bool       is_duplicate;
    bit<1>     offload;
    bit<1>     proxy;
    bit<16>    row;             // of the caller, in the exactly-once cells
    endpoint_t worker;
    endpoint_t server;
    endpoint_t service;
    bitmap_t   hits;            // lanes whose key is in the switch, for this caller
    bitmap_t   served;          // lanes that the answer marks as served
    bitmap_t   counted;         // lanes that `lane_stats` counts: those of a worker's fresh RPC
}

#endif
