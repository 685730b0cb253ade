"""What happened to a packet: the interpreter tells, and this package writes it down and shows it.

`events` what a trace consists of, and its JSON · `record` an observer that makes events · `filters` ·
`tree` for people · `state` tables and registers to explain with · `commands` of BMv2's CLI · `pcap` ·
`cli` `softswitch explain` · `live` `softswitch --trace`.
"""
