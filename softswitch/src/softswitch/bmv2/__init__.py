"""softswitch for users of BMv2: programs of BMv2's names, which take BMv2's command line.

`options` the command line · `logs` where and how it logs · `command` the switch that runs by them ·
`install` scripts of BMv2's names.
"""
