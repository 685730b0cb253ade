// The twin's pipeline around Process. What the chip's parser does, marking values of a pull valid and counting lanes,
// is done before it; a chip cannot know a frame's length, so the twin does not check it either.
control HotlineIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Process() process;

    apply {
        bit<16> parser_error = 0;
        if (std.parser_error != error.NoError) {
            parser_error = 1;
        }
        meta.bad_checksum = std.checksum_error == 1;
        if (hdr.rpc.isValid() && hdr.rpc.flags & (FLAG_KEYS | FLAG_VALUES) == FLAG_KEYS) {
#define VALUE(nn, i) if (hdr.keys[(i) / DIM].isValid()) { hdr.words[i].setValid(); hdr.words[i].value = 0; }
            EACH_VALUE(VALUE)
#undef VALUE
        }
        process.apply(hdr, meta, parser_error, std.ingress_port, std.egress_spec);
        hdr.packet_out.setInvalid();
        if (meta.kind == PacketKind.DROPPED) {
            mark_to_drop(std);
        }
    }
}

control HotlineEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in._pad = 0;
        }
    }
}

V1Switch(HotlineParser(), HotlineVerifyChecksum(), HotlineIngress(), HotlineEgress(),
         HotlineComputeChecksum(), HotlineDeparser()) main;
