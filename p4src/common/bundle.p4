// A *bundle* is a leaf's ports to all spines, which all lead to every other leaf. In the rows of all other tables its
// first port stands for all of them. Without rows here, each port is its own.

// The port by which a packet came: of a bundle the first one.
control FromBundle(inout port_t port) {
    action set_first(port_t first) {
        port = first;
    }

    table bundled_ports {
        key = { port: exact @name("port"); }
        actions = { set_first; @defaultonly NoAction; }
        const default_action = NoAction();
        size = MAX_SPINES;
    }

    apply {
        bundled_ports.apply();
    }
}

// Sends a packet that is to leave by a bundle's first port by one of its members.
control ToBundle(in headers_t hdr, inout standard_metadata_t std) {
    register<bit<8>>(1) turns;      // the member that is next
    bit<8> member = 0;

    // Packets of a flow take one path. What is not UDP counts as one flow.
    action hash_flow(bit<8> count) {
        bit<96> flow = 0;
        if (hdr.udp.isValid()) {
            flow = hdr.ipv4.src_addr ++ hdr.ipv4.dst_addr ++ hdr.udp.src_port ++ hdr.udp.dst_port;
        }
        hash(member, HashAlgorithm.crc32, (bit<8>)0, { flow }, count);
    }

    // A repeated packet takes another path than the first one.
    action take_turns(bit<8> count) {
        turns.read(member, 0);
        bit<8> following = member + 1;
        turns.write(0, following >= count ? 0 : following);
    }

    table bundles {
        key = { std.egress_spec: exact @name("port"); }
        actions = { hash_flow; take_turns; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1;
    }

    action set_port(port_t port) {
        std.egress_spec = port;
    }

    table members {
        key = { member: exact @name("member"); }
        actions = { set_port; @defaultonly NoAction; }
        const default_action = NoAction();
        size = MAX_SPINES;
    }

    apply {
        if (bundles.apply().hit) {
            members.apply();
        }
    }
}
