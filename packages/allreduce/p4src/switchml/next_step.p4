// Decides where a packet goes. The last packet of a chunk goes to all workers, and a retransmission to a complete entry
// goes back to its sender.
control NextStep(in headers_t hdr, in metadata_t meta, inout standard_metadata_t std) {
    counter(PACKET_OUTCOMES, CounterType.packets) packets;

    apply {
        if (meta.timed_out) {
            packets.count(PacketOutcome.TIMED_OUT);
            std.mcast_grp = meta.group;
        } else if (!meta.is_retransmit && meta.remaining == 1) {
            packets.count(PacketOutcome.BROADCAST);
            std.mcast_grp = meta.group;
        } else if (!meta.is_retransmit) {
            packets.count(PacketOutcome.CONSUMED);
            mark_to_drop(std);
        } else if (meta.remaining == 0) {
            packets.count(PacketOutcome.RETRANSMITTED);
            std.egress_spec = std.ingress_port;
        } else {
            packets.count(PacketOutcome.IGNORED);
            mark_to_drop(std);
        }
    }
}
