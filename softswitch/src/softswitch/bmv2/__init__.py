"""softswitch under BMv2's program names, with BMv2's command line.

`options` parses the command line, `logs` formats logs, `command` runs the switch, and `install` writes
scripts of BMv2's names.
"""
