// What becomes of a packet: the last goes to all workers, and what comes again to a full entry back to its sender.
control NextStep(in headers_t hdr, in metadata_t meta, inout standard_metadata_t std) {
    counter(PACKET_OUTCOMES, CounterType.packets) packets;

    apply {
        if (meta.gives_up) {
            packets.count(PACKET_GAVE_UP);
            std.mcast_grp = meta.group;
        } else if (meta.again == 0 && meta.missing == 1) {
            packets.count(PACKET_BROADCAST);
            std.mcast_grp = meta.group;
        } else if (meta.again == 0) {
            packets.count(PACKET_CONSUMED);
            mark_to_drop(std);
        } else if (meta.missing == 0) {
            packets.count(PACKET_RETRANSMITTED);
            std.egress_spec = std.ingress_port;
        } else {
            packets.count(PACKET_IGNORED);
            mark_to_drop(std);
        }
    }
}
