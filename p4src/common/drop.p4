// Marks a packet as one that ingress drops and counts by its reason. A program declares the types before this file.
action drop(inout metadata_t meta, DropReason reason) {
    meta.kind = PacketKind.DROPPED;
    meta.drop_reason = reason;
}
