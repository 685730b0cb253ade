"""BMv2's commands: `softswitch cli`, and `simple_switch_CLI` (docs/commands.md)."""
