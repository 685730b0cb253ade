control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Forward() forward;

    apply {
        forward.apply(hdr, std);
    }
}
