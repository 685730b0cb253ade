"""Commands on multicast groups and mirroring sessions."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.commands.base import CommandGroup, exact_words, min_words
from softswitch.commands.dump import LINE, STARS
from softswitch.commands.names import CommandError
from softswitch.commands.values import parse_int


class ReplicationCommands(CommandGroup):
    # -- groups

    def do_mc_mgrp_create(self, line: str) -> None:
        """Create multicast group: mc_mgrp_create <group id>"""
        (text,) = exact_words(line, 1)
        group = parse_int(text, "multicast group id")
        self.say(f"Creating multicast group {group}")
        self.switch.mc_group_create(group)

    def do_mc_mgrp_destroy(self, line: str) -> None:
        """Destroy multicast group: mc_mgrp_destroy <group id>"""
        (text,) = exact_words(line, 1)
        group = parse_int(text, "multicast group id")
        self.say(f"Destroying multicast group {group}")
        self.switch.mc_group_destroy(group)

    # -- nodes

    def do_mc_node_create(self, line: str) -> None:
        """Create multicast node: mc_node_create <rid> <space-separated port list> [ | <space-separated lag
        list> ]
        """
        words = min_words(line, 1)
        rid = parse_int(words[0], "rid")
        ports, lags = _parse_ports_and_lags(words[1:])
        self.say(
            f"Creating node with rid {rid} , port map {_format_bit_map(ports)} "
            f"and lag map {_format_bit_map(lags)}"
        )
        self.say(f"node was created with handle {self.switch.mc_node_create(rid, ports, lags)}")

    def do_mc_node_update(self, line: str) -> None:
        """Update multicast node: mc_node_update <node handle> <space-separated port list> [ | <space-
        separated lag list> ]
        """
        words = min_words(line, 2)
        node = parse_int(words[0], "node handle")
        ports, lags = _parse_ports_and_lags(words[1:])
        self.say(
            f"Updating node {node} with port map {_format_bit_map(ports)} and lag map {_format_bit_map(lags)}"
        )
        self.switch.mc_node_update(node, ports, lags)

    def do_mc_node_associate(self, line: str) -> None:
        """Associate node to multicast group: mc_node_associate <group handle> <node handle>"""
        group, node = _parse_group_and_node(line)
        self.say(f"Associating node {node} to multicast group {group}")
        self.switch.mc_node_associate(group, node)

    def do_mc_node_dissociate(self, line: str) -> None:
        """Dissociate node from multicast group: mc_node_dissociate <group handle> <node handle>"""
        group, node = _parse_group_and_node(line)
        self.say(f"Dissociating node {node} from multicast group {group}")
        self.switch.mc_node_dissociate(group, node)

    def do_mc_node_destroy(self, line: str) -> None:
        """Destroy multicast node: mc_node_destroy <node handle>"""
        (text,) = exact_words(line, 1)
        node = parse_int(text, "node handle")
        self.say(f"Destroying node {node}")
        self.switch.mc_node_destroy(node)

    def do_mc_set_lag_membership(self, line: str) -> None:
        """Set lag membership of port list: mc_set_lag_membership <lag index> <space-separated port list>"""
        words = min_words(line, 2)
        # As in BMv2, errors call these ports lags.
        lag, ports = parse_int(words[0], "lag index"), _parse_numbers(words[1:], "lag")
        self.say(f"Setting lag membership: {lag} <- {_format_bit_map(ports)}")
        self.switch.mc_set_lag(lag, ports)

    def do_mc_dump(self, line: str) -> None:
        """Dump entries in multicast engine: mc_dump"""
        exact_words(line, 0)
        multicast = self.switch.multicast()
        self.say(LINE)
        self.say("MC ENTRIES")
        for group in multicast["groups"]:
            self.say(STARS)
            self.say(f"mgrp({group['group']})")
            for node in group["nodes"]:
                self.say(
                    f"  -> (L1h={node['handle']}, rid={node['rid']}) "
                    f"-> (ports=[{_join_numbers(node['ports'])}], lags=[{_join_numbers(node['lags'])}])"
                )
        self.say(LINE)
        self.say("LAGS")
        for lag in multicast["lags"]:
            self.say(f"lag({lag['lag']}) -> ports=[{_join_numbers(lag['ports'])}]")
        self.say(LINE)

    # -- mirroring

    def do_mirroring_add(self, line: str) -> None:
        """Add mirroring session to unicast port: mirroring_add <mirror_id> <egress_port>"""
        session, port = exact_words(line, 2)
        egress_port = parse_int(port, "egress_port, expected integer")
        self.switch.mirror_set(_parse_session(session), port=egress_port, group=None)

    def do_mirroring_add_mc(self, line: str) -> None:
        """Add mirroring session to multicast group: mirroring_add_mc <mirror_id> <mgrp>"""
        session, group = exact_words(line, 2)
        mcast_group = parse_int(group, "mgrp, expected integer")
        self.switch.mirror_set(_parse_session(session), port=None, group=mcast_group)

    def do_mirroring_delete(self, line: str) -> None:
        """Delete mirroring session: mirroring_delete <mirror_id>"""
        (session,) = exact_words(line, 1)
        self.switch.mirror_delete(_parse_session(session))

    def do_mirroring_get(self, line: str) -> None:
        """Display mirroring session: mirroring_get <mirror_id>"""
        (session,) = exact_words(line, 1)
        mirror = self.switch.mirror(_parse_session(session))
        self.say(f"MirroringSessionConfig(port={mirror['port']}, mgid={mirror['group']})")


def _parse_session(word: str) -> int:
    return parse_int(word, "mirror_id, expected integer")


def _parse_group_and_node(line: str) -> tuple[int, int]:
    group, node = exact_words(line, 2)
    return parse_int(group, "multicast group id"), parse_int(node, "node handle")


def _parse_ports_and_lags(words: list[str]) -> tuple[list[int], list[int]]:
    bar = words.index("|") if "|" in words else len(words)
    return _parse_numbers(words[:bar], "port"), _parse_numbers(words[bar + 1 :], "lag")


def _parse_numbers(words: Sequence[str], kind: str) -> list[int]:
    numbers: list[int] = []
    for word in words:
        number = int(word) if word.isascii() and word.isdigit() else -1
        if number < 0:
            raise CommandError(f"Error: '{word}' is not a valid {kind} number", word)
        if number in numbers:
            raise CommandError(f"Error: Found duplicate {kind} number '{word}'", word)
        numbers.append(number)
    return sorted(numbers)


def _format_bit_map(numbers: Sequence[int]) -> str:
    """Return the bit map of the numbers in binary, as BMv2 prints it."""
    return f"{sum(1 << number for number in numbers):b}" if numbers else ""


def _join_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
