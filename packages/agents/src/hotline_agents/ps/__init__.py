"""The parameter server, which owns a share of the keys: RPCs, persistence, sockets and the process."""
