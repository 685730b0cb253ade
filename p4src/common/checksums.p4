#include "common/ipv4_checksum.p4"

// The checksum of IPv4 only. Agents and switch send UDP checksum 0: a local socket leaves the sum to the NIC, and a veth
// computes none.
control HotlineVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_CHECKSUM_FIELDS(hdr.ipv4),
                        hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}

// A packet of kind OTHER leaves as it came: with a new checksum, a damaged header would look intact.
control HotlineComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.udp.isValid() && meta.kind != PacketKind.OTHER, IPV4_CHECKSUM_FIELDS(hdr.ipv4),
                        hdr.ipv4.hdr_checksum, HashAlgorithm.csum16);
    }
}
