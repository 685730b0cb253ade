// What an RPC of two passes has besides. `keys` and `values` are always those of this pass; what the other pass serves is
// only carried, which takes no container that tables can read. A push comes back as keys of lanes 16 to 31, keys and
// values of lanes 0 to 15, values of lanes 16 to 31; a pull as keys and values of lanes 0 to 15, keys of lanes 16 to 31.
#ifndef TWO_PASSES_P4
#define TWO_PASSES_P4

typedef bit<16> lanes_t;        // a bit for each lane of a pass

// Precedes a frame that passes again. `is_answered` has a byte of its own, as one action writes a container from two
// sources at most.
header pass_t {
    bit<7>  _pad;
    bit<1>  is_answered;
    bit<7>  _port_pad;
    port_t  ingress_port;
    lanes_t served;
}

struct headers_t {
    packet_out_t        packet_out;
    packet_in_t         packet_in;
    pass_t              pass;
    ethernet_t          ethernet;
    ipv4_t              ipv4;
    udp_t               udp;
    rpc_t               rpc;
    key_t[PASS_LANES]   other_keys;
    key_t[PASS_LANES]   keys;
    value_t[PASS_LANES] other_values;
    value_t[PASS_LANES] values;
}

#endif
