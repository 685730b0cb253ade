"""The wire format: one RPC is one UDP datagram, a header of `HEADER_BYTES` and up to `LANES` lanes."""
