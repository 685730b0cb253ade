// All that forwarding looks at.
typedef bit<48> mac_addr_t;
typedef bit<9>  port_t;

header ethernet_t {
    mac_addr_t dst_addr;
    mac_addr_t src_addr;
    bit<16>    ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}
