// Sizes and codes of SwitchML, as p4lang/p4app-switchML has them (b5c74a0).
#ifndef SWITCHML_CONSTANTS_P4
#define SWITCHML_CONSTANTS_P4

#define LANES 64            // values of a packet
#define SLOTS 8192          // of the pool, in each of two sets
#define POOL 16384          // SLOTS * 2

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<32> pool_index_t;
typedef bit<32> workers_t;  // a bit each

const bit<16> ETHERTYPE_IPV4     = 0x0800;
const bit<8>  PROTOCOL_UDP       = 17;
const bit<16> SWITCHML_PORT      = 0xbee0;
const bit<16> SWITCHML_PORT_MASK = 0xfff0;

const bit<4>  KIND = 1;
const bit<3>  SIZE = 1;     // 256 bytes of values
const bit<16> BYTES_IN_IPV4 = 20 + 8 + 8 + 2 + 256;

// Index into counter `drops`.
typedef bit<32> drop_reason_t;
const drop_reason_t DROP_PARSER_ERROR = 0;
const drop_reason_t DROP_BAD_SHAPE    = 1;      // another size, or no slot of the pool
const drop_reason_t DROP_LATE         = 2;      // with the check: of a chunk that its entry has left behind
const drop_reason_t DROP_NO_ROUTE     = 3;
#define DROP_REASONS 4

// Index into counter `packets`: what became of those that the pool has taken in.
const bit<32> PACKET_CONSUMED      = 0;         // waits for others
const bit<32> PACKET_BROADCAST     = 1;         // the last: its sum goes to all
const bit<32> PACKET_RETRANSMITTED = 2;         // comes again, to an entry that is full
const bit<32> PACKET_IGNORED       = 3;         // comes again, to one that is not
const bit<32> PACKET_GAVE_UP       = 4;         // comes again, out of patience: the sum goes to all
#define PACKET_OUTCOMES 5

#endif
