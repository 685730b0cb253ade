"""Digests: writes and reads of `DigestEntry`, and lists to send (P4Runtime 1.4 §9.8). Times are in ns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grpc import StatusCode

from softswitch.p4runtime.batch import DELETE, INSERT, Batch
from softswitch.p4runtime.codecs.data import to_data
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import DigestInfo
from softswitch.p4runtime.status import Refusal, find_by_id, invalid

Values = tuple[int, ...]
Config = p4r.DigestEntry.Config


class _SentList(NamedTuple):
    values: tuple[Values, ...]
    sent_at: int


@dataclass
class _DigestState:
    pending: dict[Values, None] = field(default_factory=dict)  # an ordered set
    oldest_arrival: int = 0  # arrival of the oldest of `pending`
    unacked: dict[int, _SentList] = field(default_factory=dict)  # by list ID, in order of sending
    # Values of `unacked`, not sent again before the ack.
    unacked_values: set[Values] = field(default_factory=set)
    last_list_id: int = 0

    def acknowledge(self, list_id: int) -> None:
        """Remove a list, so that its messages are sent again when they recur."""
        if sent_list := self.unacked.pop(list_id, None):
            self.unacked_values.difference_update(sent_list.values)

    def acknowledge_expired(self, latest_sent_at: int) -> None:  # the ack timeout of these lists is over
        while self.unacked and next(iter(self.unacked.values())).sent_at <= latest_sent_at:
            self.acknowledge(next(iter(self.unacked)))

    def clear(self) -> None:
        self.pending.clear()
        self.unacked.clear()
        self.unacked_values.clear()


class DigestEntries:
    def __init__(self, digests: Mapping[int, DigestInfo], program_names: Sequence[str]) -> None:
        self._digests = digests
        info_by_name = {digest.name: digest for digest in digests.values()}
        # By position in `Program.digests`; None for a digest that P4Info lacks.
        self._info_by_position = [info_by_name.get(name) for name in program_names]
        self._configs: dict[int, Config] = {}
        self._states = {digest_id: _DigestState() for digest_id in digests}

    # ---- DigestEntry

    def write(self, update_type: int, message: p4r.DigestEntry, batch: Batch) -> None:
        digest = self._find_digest(message.digest_id)
        if update_type == INSERT and digest.id in self._configs:
            raise Refusal(StatusCode.ALREADY_EXISTS, f"digest {digest.name} is already configured")
        if update_type != INSERT:
            self._check_configured(digest)
        if update_type == DELETE:
            batch.put(self._configs, digest.id, None)
            batch.call_after_apply(self._states[digest.id].clear)
            return
        config = Config()
        config.CopyFrom(message.config)
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise invalid(f"digest {digest.name}: the configuration has a negative value")
        batch.put(self._configs, digest.id, config)

    def read(self, query: p4r.DigestEntry) -> Iterator[p4r.Entity]:
        if query.digest_id:
            self._check_configured(self._find_digest(query.digest_id))
        digest_ids = [query.digest_id] if query.digest_id else list(self._configs)
        return iter([_make_entity(digest_id, self._configs[digest_id]) for digest_id in digest_ids])

    # ---- digest lists

    # Returns a list to be sent immediately, or None if the values wait, or are known.
    def learn(self, position: int, values: Values, now: int) -> p4r.DigestList | None:
        digest = self._info_by_position[position]
        if digest is None or digest.id not in self._configs:
            return None
        config, state = self._configs[digest.id], self._states[digest.id]
        state.acknowledge_expired(now - config.ack_timeout_ns)
        if values in state.pending or values in state.unacked_values:
            return None
        if not state.pending:
            state.oldest_arrival = now
        state.pending[values] = None
        # Zero means that messages do not wait for others, or that lists have no maximum size.
        if config.max_timeout_ns == 0 or 0 < config.max_list_size <= len(state.pending):
            return self._make_list(digest, now)
        return None

    def acknowledge(self, ack: p4r.DigestListAck) -> None:
        self._states[self._find_digest(ack.digest_id).id].acknowledge(ack.list_id)

    def due_lists(self, now: int) -> list[p4r.DigestList]:
        return [
            self._make_list(self._digests[digest_id], now)
            for digest_id, state in self._states.items()
            if state.pending and self._deadline(digest_id) <= now
        ]

    def next_deadline(self) -> int | None:
        return min((self._deadline(i) for i, state in self._states.items() if state.pending), default=None)

    def forget(self) -> None:
        for state in self._states.values():
            state.clear()

    def _deadline(self, digest_id: int) -> int:
        return self._states[digest_id].oldest_arrival + self._configs[digest_id].max_timeout_ns

    def _make_list(self, digest: DigestInfo, now: int) -> p4r.DigestList:
        state = self._states[digest.id]
        state.last_list_id += 1
        if self._configs[digest.id].ack_timeout_ns:
            state.unacked[state.last_list_id] = _SentList(tuple(state.pending), now)
            state.unacked_values.update(state.pending)
        message = p4r.DigestList(digest_id=digest.id, list_id=state.last_list_id)
        message.data.extend(to_data(digest.shape, values) for values in state.pending)
        state.pending.clear()
        return message

    def _find_digest(self, digest_id: int) -> DigestInfo:
        return find_by_id(self._digests, digest_id, "digest")

    def _check_configured(self, digest: DigestInfo) -> None:
        if digest.id not in self._configs:
            raise Refusal(StatusCode.NOT_FOUND, f"digest {digest.name} is not configured")


def _make_entity(digest_id: int, config: Config) -> p4r.Entity:
    return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=digest_id, config=config))
