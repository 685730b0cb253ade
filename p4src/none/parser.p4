parser HotlineParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}
