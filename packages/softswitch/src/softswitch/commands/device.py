"""Commands on the switch as a device."""

from __future__ import annotations

from pathlib import Path

from nativekit.files import replace_file
from softswitch.commands.base import CommandGroup, exact_words, min_words
from softswitch.commands.names import CommandError, wrong_name
from softswitch.commands.values import parse_int
from softswitch.load.json_text import decode_text
from softswitch.runtime.interface import RuntimeCrc

_TRUE, _FALSE = ("true", "True"), ("false", "False")
_FILE_MODE = 0o644


class DeviceCommands(CommandGroup):
    # -- programs and state

    def do_load_new_config_file(self, line: str) -> None:
        """Load new json config: load_new_config_file <path to .json file>"""
        (name,) = exact_words(line, 1)
        try:
            text = decode_text(Path(name).read_bytes())
        except OSError:
            raise CommandError("Error: Not a valid filename", name) from None
        self.say("Loading new Json config")
        self.switch.load_config(text)
        self._program = None

    def do_swap_configs(self, line: str) -> None:
        """Swap the 2 existing configs, need to have called load_new_config_file before: swap_configs"""
        exact_words(line, 0)
        self.say("Swapping configs")
        self.switch.swap_configs()
        self._program = None

    def do_write_config_to_file(self, line: str) -> None:
        """Retrieves the JSON config currently used by the switch and dumps it to user-specified file:
        write_config_to_file <file>
        """
        (name,) = exact_words(line, 1)
        _write_file(name, self.switch.config())

    def do_serialize_state(self, line: str) -> None:
        """Serialize the switch state and dumps it to user-specified file: serialize_state <file>"""
        (name,) = exact_words(line, 1)
        _write_file(name, self.switch.state())

    def do_reset_state(self, line: str) -> None:
        """Reset all state in the switch (table entries, registers, ...), but P4 config is preserved:
        reset_state
        """
        exact_words(line, 0)
        self.switch.reset_state()

    def do_switch_info(self, line: str) -> None:
        """Show some basic info about the switch: switch_info"""
        exact_words(line, 0)
        info = self.switch.info()
        rows = {
            "device_id": info["device_id"],
            "switch": f"softswitch {info['version']}",
            "p4info": "loaded" if info["has_p4info"] else None,
        }
        width = max(map(len, rows)) + 5  # as in simple_switch_CLI
        self.say_all(f"{name:{width}}: {value}" for name, value in rows.items())

    # -- ports and queues

    def do_show_ports(self, line: str) -> None:
        """Shows the ports connected to the switch: show_ports"""
        exact_words(line, 0)
        self.say(f"{'port #':^10}{'iface name':^20}{'status':^10}extra info")
        self.say("=" * 50)
        for port in self.switch.ports():
            status = "UP" if port["is_up"] else "DOWN"
            self.say(f"{port['port']:^10}{port['interface']:^20}{status:^10}")

    def do_port_add(self, line: str) -> None:
        """Add a port to the switch: port_add <iface_name> <port_num> [pcap_path]

        A pcap_path is not supported.
        """
        words = min_words(line, 2)
        if len(words) > 2:
            raise CommandError("Error: a pcap_path is not supported", words[2])
        self.switch.port_add(parse_int(words[1], "port_num, must be an integer"), words[0])

    def do_port_remove(self, line: str) -> None:
        """Removes a port from the switch: port_remove <port_num>"""
        (word,) = exact_words(line, 1)
        self.switch.port_remove(parse_int(word, "port_num, must be an integer"))

    def do_set_queue_depth(self, line: str) -> None:
        """Set depth of one / all egress queue(s): set_queue_depth <nb_pkts> [<egress_port> [<priority>]]"""
        depth, port, priority = _parse_queue_arguments(line, "nb_pkts")
        self.switch.queue_set(port, priority, rate=None, depth=depth)

    def do_set_queue_rate(self, line: str) -> None:
        """Set rate of one / all egress queue(s): set_queue_rate <rate_pps> [<egress_port> [<priority>]]"""
        rate, port, priority = _parse_queue_arguments(line, "rate_pps")
        self.switch.queue_set(port, priority, rate=rate, depth=None)

    # -- time

    def do_get_time_elapsed(self, line: str) -> None:
        """Get time elapsed (in microseconds) since the switch started: get_time_elapsed"""
        exact_words(line, 0)
        self.say(str(self.switch.time()["elapsed"]))

    def do_get_time_since_epoch(self, line: str) -> None:
        """Get time elapsed (in microseconds) since the switch clock's epoch: get_time_since_epoch"""
        exact_words(line, 0)
        self.say(str(self.switch.time()["epoch"]))

    # -- hashes

    def do_set_crc16_parameters(self, line: str) -> None:
        """Change the parameters for a custom crc16 hash: set_crc16_parameters <name> <polynomial> <initial
        remainder> <final xor value> <reflect data?> <reflect remainder?>
        """
        self._set_crc(line, 16)

    def do_set_crc32_parameters(self, line: str) -> None:
        """Change the parameters for a custom crc32 hash: set_crc32_parameters <name> <polynomial> <initial
        remainder> <final xor value> <reflect data?> <reflect remainder?>
        """
        self._set_crc(line, 32)

    def _set_crc(self, line: str, width: int) -> None:
        name, *numbers, data, remainder = exact_words(line, 6)
        if self.program.crcs.get(name) != width:
            raise wrong_name(f"crc{width}_custom", name)
        polynomial, initial, final = (_parse_crc_parameter(number, width) for number in numbers)
        crc = RuntimeCrc(
            polynomial=polynomial,
            initial=initial,
            final=final,
            reflect_data=_parse_bool(data),
            reflect_remainder=_parse_bool(remainder),
        )
        self.switch.crc_set(name, width, crc)


def _parse_queue_arguments(line: str, name: str) -> tuple[int, int | None, int | None]:
    words = min_words(line, 1)
    if len(words) > 3:
        exact_words(line, 3)  # raises
    value = parse_int(words[0], f"{name}, expected integer")
    port = parse_int(words[1], "egress_port, expected integer") if len(words) > 1 else None
    return value, port, parse_int(words[2], "priority, expected integer") if len(words) > 2 else None


def _parse_crc_parameter(word: str, width: int) -> int:
    value = parse_int(word, "parameter")
    if not 0 <= value < 1 << width:
        raise CommandError(f"Error: Integer cannot fit within {width} bits", word)
    return value


def _parse_bool(word: str) -> bool:
    if word in (*_TRUE, *_FALSE):
        return word in _TRUE
    try:
        return bool(int(word, 0))
    except ValueError:
        raise CommandError("Error: Invalid bool parameter", word) from None


def _write_file(name: str, text: str) -> None:
    path = Path(name)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe
            path.write_text(text)
        else:
            replace_file(path, text.encode(), _FILE_MODE)
    except OSError as error:
        raise CommandError(f"Error: {name}: {error.strerror}", name) from None
