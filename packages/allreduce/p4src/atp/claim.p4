// Keeps each cell's owner: a job and a sequence number. A first copy claims a cell without an owner. A resent packet
// claims none and frees the cell that it owns. So does an acknowledgement, unless it asks for floats and is not resent.
// With the tensor check, which is not part of ATP, an owner also has a tensor. A packet of a newer tensor begins the
// cell anew, and a first copy of an older one is dropped. Tensor numbers wrap: newer is ahead by less than 2^31.
control Claim(in headers_t hdr, inout metadata_t meta) {
    register<owner_t>(CELLS) owners;
    register<bit<32>>(CELLS) tensors;

    apply {
        owner_t mine = hdr.atp.app ++ hdr.atp.sequence;
        owner_t owner;
        owners.read(owner, meta.index);
        meta.is_owner = owner == mine;
        meta.is_new_tensor = false;
        if (meta.check_tensor == 1 && meta.is_owner) {
            bit<32> tensor;
            tensors.read(tensor, meta.index);
            bit<32> ahead = hdr.tensor.key[31:0] - tensor;
            meta.is_owner = ahead == 0;
            meta.is_new_tensor = !meta.is_owner && ahead < 0x80000000 && hdr.atp.is_ack == 0;
            if (ahead >= 0x80000000 && hdr.atp.is_ack == 0 && hdr.atp.is_resent == 0) {
                drop(meta, DropReason.STALE_TENSOR);
            }
        }
        if (meta.kind == PacketKind.DROPPED) {
            // The cell stays as it is.
        } else if (hdr.atp.is_ack == 1) {
            meta.is_owner = meta.is_owner && (hdr.atp.overflow == 0 || hdr.atp.is_resent == 1);
            if (meta.is_owner) {
                owner = 0;
            }
        } else if (hdr.atp.is_resent == 1) {
            if (meta.is_owner || meta.is_new_tensor) {
                owner = 0;      // freed: Bitmaps and Count clear the cell
            }
        } else if (owner == 0 || meta.is_new_tensor) {
            meta.is_owner = true;
            owner = mine;
            if (meta.check_tensor == 1) {
                tensors.write(meta.index, hdr.tensor.key[31:0]);
            }
        }
        owners.write(meta.index, owner);
    }
}
