// IPv4 only: agents and switch send UDP checksum 0, since a local socket's is partial until the NIC.
#define IPV4_WITHOUT_CHECKSUM \
    { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, hdr.ipv4.identification, \
      hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, \
      hdr.ipv4.dst_addr }

control HotlineVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_WITHOUT_CHECKSUM,
                        hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

control HotlineComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.rpc.isValid(), IPV4_WITHOUT_CHECKSUM, hdr.ipv4.hdr_checksum,
                        HashAlgorithm.csum16);
    }
}
