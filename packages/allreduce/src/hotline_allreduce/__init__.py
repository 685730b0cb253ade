"""SwitchML, ATP, servers and a ring beside the hot set."""
