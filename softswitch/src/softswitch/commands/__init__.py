"""BMv2's commands: `softswitch cli`, and `simple_switch_CLI` (docs/commands.md).

`cli` has the command line. `shell` executes lines that are typed or read from a file; the commands are in
`tables`, `profiles`, `cells`, `replication` and `device`, based on `base`. `names` resolves names of a
program, `values` parses numbers, addresses and matches, and `dump` shows entries as BMv2 does. Commands call
`softswitch.runtime`.
"""
