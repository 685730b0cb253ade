"""[DDL] Fig. 9: the delay of empty RPCs against connections, for servers that wait for them in four ways."""
