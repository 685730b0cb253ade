control HotlineVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control HotlineComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.atp.isValid(), IPV4_CHECKSUM_FIELDS(hdr.ipv4), hdr.ipv4.hdr_checksum,
                        HashAlgorithm.csum16);
    }
}
