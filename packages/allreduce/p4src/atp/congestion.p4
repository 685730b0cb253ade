// Remembers, until the acknowledgement, that a packet of the cell experienced congestion, and marks later packets.
control Congestion(inout headers_t hdr, in metadata_t meta) {
    register<bit<1>>(CELLS) marks;

    apply {
        bit<1> mark;
        marks.read(mark, meta.index);
        if (meta.is_new_tensor) {
            mark = 0;
        }
        if (hdr.atp.is_ack == 1) {
            mark = 0;
        } else {
            bit<1> earlier = mark;
            if (meta.is_congested && meta.is_owner) {
                mark = 1;
            }
            hdr.atp.ecn = hdr.atp.ecn | earlier;
        }
        marks.write(meta.index, mark);
    }
}
