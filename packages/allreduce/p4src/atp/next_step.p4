// Decides where a packet goes: nowhere, to the server that it is addressed to, or to all workers of its job. At two
// levels, the root sends an acknowledgement to its own workers and to the other switches, and these to theirs.
control NextStep(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(PACKET_OUTCOMES, CounterType.packets) packets;

    action set_group(bit<16> group) {
        std.mcast_grp = group;
        packets.count(PacketOutcome.ACKNOWLEDGED);
    }

    // An acknowledgement goes to a multicast group of its job, if it comes from the port of a server, or of the switch
    // next to the root.
    table groups {
        key = {
            hdr.atp.app:      exact @name("app");
            std.ingress_port: exact @name("ingress_port");
        }
        actions = { set_group; @defaultonly drop(meta); }
        const default_action = drop(meta, DropReason.NO_GROUP);
        size = 1024;
    }

    apply {
        meta.is_forwarded = false;
        hdr.udp.checksum = 0;
        if (meta.passes_on) {
            packets.count(PacketOutcome.PASSED);
            meta.is_forwarded = true;
        } else if (hdr.atp.is_ack == 1) {
            groups.apply();
        } else if (meta.is_owner && !meta.is_complete) {
            if (meta.is_fresh) {
                packets.count(PacketOutcome.CONSUMED);
            } else {
                packets.count(PacketOutcome.IGNORED);
            }
            mark_to_drop(std);
        } else {
            if (!meta.is_owner) {
                if (hdr.atp.overflow == 1 || hdr.atp.is_resent == 1) {
                    packets.count(PacketOutcome.PASSED);
                } else {
                    packets.count(PacketOutcome.COLLIDED);
                    hdr.atp.collided = 1;
                }
            } else {
                hdr.atp.bitmap = hdr.atp.bitmap | meta.seen_before;
                if (hdr.atp.is_resent == 1) {
                    packets.count(PacketOutcome.FLUSHED);
                } else if (meta.is_fresh) {
                    packets.count(PacketOutcome.COMPLETED);
                } else {
                    packets.count(PacketOutcome.REPEATED);
                }
            }
            meta.is_forwarded = true;
        }
    }
}
