// The headers of Ethernet, IPv4 and UDP, and the numbers of their types.
#ifndef COMMON_HEADERS_P4
#define COMMON_HEADERS_P4

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;

const bit<16> ETHERTYPE_IPV4         = 0x0800;
const bit<16> ETHERTYPE_VLAN         = 0x8100;
const bit<16> ETHERTYPE_SERVICE_VLAN = 0x88a8;
const bit<8>  PROTOCOL_UDP           = 17;
const bit<3>  IPV4_MORE_FRAGMENTS    = 1;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES     = 20;      // without options
const bit<16> UDP_BYTES      = 8;

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

#endif
