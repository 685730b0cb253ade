"""The wire format: one RPC is one UDP datagram, a 56-byte header and up to `LANES` lanes."""
