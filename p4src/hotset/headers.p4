// The metadata that controls pass on to each other.
#ifndef HEADERS_P4
#define HEADERS_P4

#include "rpc.p4"

struct metadata_t {
    bit<8>     remaining;       // keys, words or quads that are not parsed yet
    bit<16>    prefix_bytes;    // of the packet-out header
    PacketKind kind;
    DropReason drop_reason;     // of a packet of kind DROPPED
    bool       has_route;
    bool       is_scalar;       // rows of one value
    bool       is_privileged;
    bool       is_duplicate;
    bool       is_from_switch;  // a packet that no host sends: a command, or a request that is served in part
    bool       is_passed_on;    // its server's hot set is in another switch
#ifdef PUBLISHES
    bool       is_of_words;     // SET, REPLAY, or for optimiser state: lanes serve it for no worker
#endif
    bit<1>     offload;
    bit<1>     proxy;
    bit<16>    caller;          // number in the exactly-once cells
    endpoint_t worker;
    endpoint_t server;
    endpoint_t service;
    port_t     home_port;       // toward that switch
    port_t     ingress_port;    // by which the packet came, as the rows of tables name it
    bitmap_t   hits;            // lanes whose key is in the switch, for this caller
    bitmap_t   served;          // lanes that the answer marks as served
    bitmap_t   counting;        // banks whose `row_stats` count: the first ones of the rows of a worker's fresh RPC
    bitmap_t   privileged_lanes;    // all lanes if the caller reaches entries that are moving
}

#endif
