"""Commands on registers, counters, meters and parser value sets."""

from __future__ import annotations

import sys

from softswitch.commands.base import CommandGroup, exact_words, min_words
from softswitch.commands.names import CommandError, NamedValueSet
from softswitch.commands.values import parse_int
from softswitch.runtime.interface import RuntimeRate


class CellCommands(CommandGroup):
    """Commands on arrays and value sets. The index of a direct counter or meter is an entry's handle."""

    # -- registers

    def do_register_read(self, line: str) -> None:
        """Read register value: register_read <name> [index]"""
        words = min_words(line, 1)
        register = self.program.registers[words[0]]
        if len(words) > 1:
            name, text = exact_words(line, 2)
            index = parse_int(text, "index")
            (value,) = self.switch.register_read(register.name, index)
            self.say(f"{name}[{index}]= {int(value, 16)}")
            return
        print("register index omitted, reading entire array", file=sys.stderr)
        values = self.switch.register_read(register.name, None)
        self.say(f"{words[0]}= {', '.join(str(int(value, 16)) for value in values)}")

    def do_register_write(self, line: str) -> None:
        """Write register value: register_write <name> <index> <value>"""
        name, index, text = exact_words(line, 3)
        # The message is BMv2's, verbatim.
        register, value = self.program.registers[name], parse_int(text, "value, must be an integer")
        self.switch.register_write(register.name, parse_int(index, "index"), f"{value:#x}")

    def do_register_reset(self, line: str) -> None:
        """Reset all the cells in the register array to 0: register_reset <name>"""
        (name,) = exact_words(line, 1)
        self.switch.register_write(self.program.registers[name].name, None, "0x0")

    # -- counters

    def do_counter_read(self, line: str) -> None:
        """Read counter value: counter_read <name> <index>"""
        name, text = exact_words(line, 2)
        counter, index = self.program.counters[name], parse_int(text, "index")
        if counter.binding is None:
            count = self.switch.counter_read(counter.name, index)
        else:
            self.say(f"this is the direct counter for table {counter.binding}")
            count = self.switch.entry_counter_read(counter.binding, index)
        self.say(f"{name}[{index}]= ({count['bytes']} bytes, {count['packets']} packets)")

    def do_counter_write(self, line: str) -> None:
        """Write counter value: counter_write <name> <index> <packets> <bytes>"""
        name, text, packets, octets = exact_words(line, 4)
        counter, index = self.program.counters[name], parse_int(text, "index")
        value = parse_int(packets, "packets"), parse_int(octets, "bytes")
        if counter.binding is None:
            self.switch.counter_write(counter.name, index, *value)
        else:
            self.say(f"writing to direct counter for table {counter.binding}")
            self.switch.entry_counter_write(counter.binding, index, *value)
        self.say(f"{name}[{index}] has been updated")

    def do_counter_reset(self, line: str) -> None:
        """Reset counter: counter_reset <name>"""
        (name,) = exact_words(line, 1)
        counter = self.program.counters[name]
        if counter.binding is None:
            self.switch.counter_write(counter.name, None, 0, 0)
        else:
            self.say(f"this is the direct counter for table {counter.binding}")
            self.switch.entry_counter_write(counter.binding, None, 0, 0)

    # -- meters

    def do_meter_set_rates(self, line: str) -> None:
        """Configure rates for a meter: meter_set_rates <name> <index> <rate_1>:<burst_1> <rate_2>:<burst_2>
        ...

        Rate uses units/microsecond and burst uses units where units is bytes or packets
        """
        words = min_words(line, 2)
        self._set_rates(words[0], parse_int(words[1], "index"), words[2:])

    def do_meter_array_set_rates(self, line: str) -> None:
        """Configure rates for an entire meter array: meter_array_set_rates <name> <rate_1>:<burst_1>
        <rate_2>:<burst_2> ...
        """
        words = min_words(line, 1)
        self._set_rates(words[0], None, words[1:])

    def do_meter_get_rates(self, line: str) -> None:
        """Retrieve rates for a meter: meter_get_rates <name> <index>"""
        name, text = exact_words(line, 2)
        meter, index = self.program.meters[name], parse_int(text, "index")
        if meter.binding is None:
            rates = self.switch.meter_rates(meter.name, index)
        else:
            rates = self.switch.entry_meter_rates(meter.binding, index)
        if len(rates) != _RATE_COUNT:
            self.say(f"WARNING: expected {_RATE_COUNT} rates but only received {len(rates)}")
        for i, rate in enumerate(rates):
            self.say(f"{i}: info rate = {rate['rate']}, burst size = {rate['burst']}")

    def _set_rates(self, name: str, index: int | None, words: list[str]) -> None:
        meter = self.program.meters[name]
        if len(words) != _RATE_COUNT:
            text = f"Error: Invalid number of rates, expected {_RATE_COUNT} but got {len(words)}"
            raise CommandError(text)
        rates = [_parse_rate(word) for word in words]
        if meter.binding is None:
            self.switch.meter_set_rates(meter.name, index, rates)
        else:
            self.switch.entry_meter_set_rates(meter.binding, index, rates)

    # -- value sets

    def do_show_pvs(self, line: str) -> None:
        """List parser value sets defined in the P4 program: show_pvs"""
        exact_words(line, 0)
        for name, value_set in sorted(self.program.value_sets.by_name.items()):
            self.say(f"{name:30} [compressed bitwidth:{value_set.width}]")

    def do_pvs_add(self, line: str) -> None:
        """Add a value to a parser value set: pvs_add <pvs_name> <value>

        It is no error if the value is there already.
        """
        value_set, value = self._parse_member(line)
        members = self.switch.value_set(value_set.name)
        if value not in members:
            self.switch.value_set_write(value_set.name, [*members, value])

    def do_pvs_remove(self, line: str) -> None:
        """Remove a value from a parser value set: pvs_remove <pvs_name> <value>

        It is no error if the value is not there.
        """
        value_set, value = self._parse_member(line)
        members = self.switch.value_set(value_set.name)
        self.switch.value_set_write(value_set.name, [member for member in members if member != value])

    def do_pvs_get(self, line: str) -> None:
        """Print all values from a parser value set: pvs_get <pvs_name>

        Values are displayed in no particular order, one per line.
        """
        (name,) = exact_words(line, 1)
        value_set = self.program.value_sets[name]
        digits = 2 * ((value_set.width + 7) // 8)
        self.say_all(f"{int(value, 16):0{digits}x}" for value in self.switch.value_set(value_set.name))

    def do_pvs_clear(self, line: str) -> None:
        """Remove all values from a parser value set: pvs_clear <pvs_name>"""
        (name,) = exact_words(line, 1)
        self.switch.value_set_write(self.program.value_sets[name].name, [])

    def _parse_member(self, line: str) -> tuple[NamedValueSet, str]:
        name, text = exact_words(line, 2)
        value_set, value = self.program.value_sets[name], parse_int(text, "value")
        if not 0 <= value < 1 << value_set.width:
            message = f"Error: Input is too large, it should fit within {value_set.width} bits"
            raise CommandError(message, text)
        return value_set, f"{value:#x}"


def _parse_rate(word: str) -> RuntimeRate:
    rate, _, burst = word.partition(":")
    try:
        return RuntimeRate(rate=float(rate), burst=int(burst))
    except ValueError:
        raise CommandError("Error: Error while parsing rates", word) from None


_RATE_COUNT = 2  # committed and peak
