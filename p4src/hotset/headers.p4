// Headers on the wire and the metadata that the controls hand on to each other.
#ifndef HEADERS_P4
#define HEADERS_P4

#include "constants.p4"
#include "repeat.p4"

// A frame from the controller: sent out of `egress_port` as it is, or, with 0, processed as if it had
// arrived on the CPU port.
@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    bit<7> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> _pad;
}

header ethernet_t {
    mac_addr_t dst_addr;
    mac_addr_t src_addr;
    bit<16>    ether_type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     total_len;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     frag_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     hdr_checksum;
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header rpc_t {
    bit<8>   version;
    bit<8>   op;
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
    bitmap_t refused;       // lanes whose keys the PS has given away
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

// Where a host is: what an edited packet's addresses become.
struct endpoint_t {
    mac_addr_t  mac;
    ipv4_addr_t addr;
    bit<16>     udp_port;
    port_t      port;
}

struct metadata_t {
    bit<8>     left;            // lanes still to parse
    bit<16>    prefix_bytes;    // of the packet-out header
    bool       dropped;
    bool       is_answer;
    bool       is_control;
    bool       is_privileged;
    bool       is_duplicate;
    bit<1>     offload;
    bit<1>     proxy;
    bit<16>    row;
    endpoint_t worker;
    endpoint_t server;
    endpoint_t service;
    bitmap_t   hits;            // lanes whose key is in the switch, for this caller
    bitmap_t   served;          // lanes that the answer says were served
    bitmap_t   counted;         // lanes in `lane_stats`: those of a worker's fresh RPC
}

#endif
