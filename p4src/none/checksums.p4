// Nothing is changed that a checksum is of.
control NoneVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control NoneComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
