"""softswitch under BMv2's program names, with BMv2's command line."""
