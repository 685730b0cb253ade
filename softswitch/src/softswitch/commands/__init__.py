"""BMv2's commands: `softswitch cli`, and `simple_switch_CLI` (docs/commands.md).

`cli` the command line · `shell` lines of text, typed or from a file, and all commands: `tables`, `profiles`,
`cells`, `replication`, `device`, each over `base` · `names` what a program has, by unique suffix · `values`
numbers, addresses and matches as text · `dump` entries as BMv2 shows them.
What commands do is `softswitch.runtime`.
"""
