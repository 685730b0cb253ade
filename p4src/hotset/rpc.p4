// The RPC on the wire, and the kinds of its packets and its endpoints, for hotset, collect and tofino.
#ifndef RPC_P4
#define RPC_P4

#include "common/constants.p4"
#include "common/headers.p4"
#include "constants.p4"
#include "common/repeat.p4"
#include "packet_io.p4"

#if LANES < 8
#define BITMAP_BITS 8
#else
#define BITMAP_BITS LANES
#endif
typedef bit<BITMAP_BITS> bitmap_t;  // a bit for each lane

const bit<16> RPC_BYTES        = 44 + 3 * (BITMAP_BITS / 8);     // 44: the fields that are no bitmaps
const bit<16> KEY_BYTES        = 8;
const bit<16> VALUE_BYTES      = 4;
#define QUAD 4                      // values of a bank's slot, so a packet has up to QUAD * LANES values

header rpc_t {
    bit<8>   version;
    Op       op;
    bit<16>  flags;
    bit<16>  job;
    bit<16>  worker;
    bit<32>  epoch;
    bit<16>  ps;
    bit<8>   count;         // lanes in this packet
    bit<8>   dim;           // values of a lane's row: 1, 4, 8, 16, 32, 64 or 128
    bit<32>  seq;
    bit<32>  iteration;
    bitmap_t live;          // lanes in use
    bitmap_t served;        // lanes that the switch has served
    bitmap_t refused;       // lanes that the server did not serve, as it lacks their keys' values
    bit<64>  t0;            // ns, the sender's clock
    bit<32>  ps_proc;       // ns
    bit<32>  ps_queue;      // ns
    bit<32>  residence;     // us in the switch, all passes together
}

header key_t {
    bit<64> key;
}

// The value of a row of one value.
header word_t {
    bit<32> value;
}

// Four values of a longer row.
header quad_t {
    bit<32> a;
    bit<32> b;
    bit<32> c;
    bit<32> d;
}

struct headers_t {
    packet_out_t   packet_out;
    packet_in_t    packet_in;
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    udp_t          udp;
    rpc_t          rpc;
    key_t[LANES]   keys;
    word_t[LANES]  words;       // the values of rows of dim 1
    quad_t[LANES]  quads;       // the values of longer rows
}

enum bit<8> PacketKind {
    PACKET_OUT     = 0,     // leaves by the port that the controller has chosen
    OTHER          = 1,     // carries no RPC, and is forwarded by its destination address
    REQUEST        = 2,     // from a worker, or from a privileged caller
    ANSWER         = 3,     // from a parameter server to a worker
    CONTROL_ANSWER = 4,     // from a parameter server to the controller
    DROPPED        = 5,     // for `drop_reason`
    COMMAND        = 6,     // from the controller to a parameter server, by way of its home
    PASSED_ON      = 7      // whose server's hot set is in another switch
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

#endif
