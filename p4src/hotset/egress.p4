control HotlineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.rpc.isValid()) {
            bit<48> residence = std.egress_global_timestamp - std.ingress_global_timestamp;
            hdr.rpc.residence = hdr.rpc.residence + (bit<32>)residence;
        }
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in._pad = 0;
        }
    }
}
