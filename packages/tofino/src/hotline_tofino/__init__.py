"""Read the reports of p4c's Tofino backend."""
