// Sizes and codes of the Hotline protocol; docs/design.md has the header's byte layout.
#ifndef CONSTANTS_P4
#define CONSTANTS_P4

#ifndef LANES
#define LANES 32            // lanes of one RPC: 8, 16, 32 or 64
#endif
#define SLOTS 4096          // cells of one lane's register, and entries of its table
#define ROWS 8192           // callers the switch can tell apart at a time
#define WINDOW_BITS 6       // each caller has 2^6 sequence-number slots
#define CELLS 524288        // ROWS << WINDOW_BITS

typedef bit<LANES> bitmap_t;
typedef bit<9>     port_t;
typedef bit<48>    mac_addr_t;
typedef bit<32>    ipv4_addr_t;

const port_t CPU_PORT = 255;

const bit<16> ETHERTYPE_IPV4         = 0x0800;
const bit<16> ETHERTYPE_VLAN         = 0x8100;
const bit<16> ETHERTYPE_SERVICE_VLAN = 0x88a8;
const bit<8>  PROTOCOL_UDP           = 17;
const bit<16> HOTLINE_PORT           = 5001;

const bit<16> ETHERNET_BYTES   = 14;
const bit<16> IPV4_BYTES       = 20;
const bit<16> UDP_BYTES        = 8;
const bit<16> RPC_BYTES        = 44 + 3 * (LANES / 8);
const bit<16> PACKET_OUT_BYTES = 2;

const bit<8> VERSION = 2;     // of the wire; `main` says it, too

const bit<8> OP_PULL    = 1;
const bit<8> OP_PUSH    = 2;
const bit<8> OP_EMPTY   = 3;
const bit<8> OP_CONTROL = 4;

const bit<16> FLAG_RESPONSE = 0x1;
const bit<16> FLAG_KEYS     = 0x2;
const bit<16> FLAG_VALUES   = 0x4;

// Callers: a worker's lanes are served when the key is hot. A privileged caller (a PS that moves a
// key, the controller that reads one) also reaches entries that are on their way in or out.
const bit<8> KIND_PRIVILEGED = 1;    // a worker is 0

// Index into counter `drops`.
typedef bit<32> drop_reason_t;
const drop_reason_t DROP_PARSER_ERROR   = 0;
const drop_reason_t DROP_BAD_CHECKSUM   = 1;
const drop_reason_t DROP_FRAGMENT       = 2;
const drop_reason_t DROP_BAD_LENGTH     = 3;
const drop_reason_t DROP_BAD_SHAPE      = 4;
const drop_reason_t DROP_UNKNOWN_WORKER = 5;
const drop_reason_t DROP_WRONG_PORT     = 6;
const drop_reason_t DROP_UNKNOWN_JOB    = 7;
const drop_reason_t DROP_UNKNOWN_SERVER = 8;
const drop_reason_t DROP_STALE_TURN     = 9;
const drop_reason_t DROP_AHEAD_TURN     = 10;
const drop_reason_t DROP_NO_ROUTE       = 11;
const drop_reason_t DROP_WRONG_VERSION  = 12;
#define DROP_REASONS 16

// Index into counter `rpcs`.
const bit<32> RPC_ANSWERED  = 0;
const bit<32> RPC_FORWARDED = 1;
const bit<32> RPC_RELAYED   = 2;
const bit<32> RPC_DUPLICATE = 3;
#define RPC_OUTCOMES 4

// Index into each lane's counter `lane_stats`: any event | LANE_UNCOUNTED is LANE_UNCOUNTED.
const bit<32> LANE_HIT       = 0;
const bit<32> LANE_MISS      = 1;
const bit<32> LANE_OVERFLOW  = 2;
const bit<32> LANE_UNCOUNTED = 3;
#define LANE_EVENTS 4

#endif
