"""The controller: update logs -> hot set -> the switch, over P4Runtime and in-band calls."""
