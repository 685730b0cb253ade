"""[DDL] Fig. 9: the delay of empty RPCs against connections, for servers with four ways to await requests."""
