#ifndef IPV4_CHECKSUM_P4
#define IPV4_CHECKSUM_P4

// The fields that the checksum of an IPv4 header without options covers.
#define IPV4_CHECKSUM_FIELDS(ipv4) \
    { ipv4.version, ipv4.ihl, ipv4.diffserv, ipv4.total_len, ipv4.identification, ipv4.flags, \
      ipv4.frag_offset, ipv4.ttl, ipv4.protocol, ipv4.src_addr, ipv4.dst_addr }

#endif
