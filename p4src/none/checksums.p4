// Nothing is changed that a checksum is of.
control HotlineVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control HotlineComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
