"""Digests: writes and reads of `DigestEntry`, and lists to send (P4Runtime 1.4 §9.8). Times are ns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grpc import StatusCode

from softswitch.p4runtime.batch import DELETE, INSERT, Batch
from softswitch.p4runtime.codecs.data import to_data
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import DigestInfo
from softswitch.p4runtime.status import Refusal, invalid

Values = tuple[int, ...]
Config = p4r.DigestEntry.Config


class _SentList(NamedTuple):
    values: tuple[Values, ...]
    time: int


@dataclass
class _State:
    gathered: dict[Values, None] = field(default_factory=dict)
    first: int = 0  # time of the oldest of `gathered`
    sent: dict[int, _SentList] = field(default_factory=dict)
    cache: set[Values] = field(default_factory=set)  # of `sent`; not sent again before the ack
    list_id: int = 0

    def acknowledge(self, list_id: int) -> None:
        """Remove a list, so that its messages are sent again when they recur."""
        if sent := self.sent.pop(list_id, None):
            self.cache.difference_update(sent.values)

    def expire(self, before: int) -> None:
        while self.sent and next(iter(self.sent.values())).time <= before:
            self.acknowledge(next(iter(self.sent)))

    def forget(self) -> None:
        self.gathered.clear()
        self.sent.clear()
        self.cache.clear()


class DigestEntries:
    def __init__(self, digests: Mapping[int, DigestInfo], names: Sequence[str]) -> None:
        self._digests = digests
        by_name = {digest.name: digest for digest in digests.values()}
        self._numbered = [by_name.get(name) for name in names]
        self._configs: dict[int, Config] = {}
        self._states = {identity: _State() for identity in digests}

    # ---- DigestEntry

    def write(self, kind: int, message: p4r.DigestEntry, batch: Batch) -> None:
        digest = self._digest(message.digest_id)
        if kind == INSERT and digest.id in self._configs:
            raise Refusal(StatusCode.ALREADY_EXISTS, f"digest {digest.name} is already configured")
        if kind != INSERT:
            self._check_configured(digest)
        if kind == DELETE:
            batch.put(self._configs, digest.id, None)
            batch.call_after_apply(self._states[digest.id].forget)
            return
        config = Config()
        config.CopyFrom(message.config)
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            raise invalid(f"digest {digest.name}: the configuration has a negative value")
        batch.put(self._configs, digest.id, config)

    def read(self, wanted: p4r.DigestEntry) -> Iterator[p4r.Entity]:
        if wanted.digest_id:
            self._check_configured(self._digest(wanted.digest_id))
        chosen = [wanted.digest_id] if wanted.digest_id else list(self._configs)
        return iter([_entity(identity, self._configs[identity]) for identity in chosen])

    # ---- digest lists

    def learn(self, number: int, values: Values, now: int) -> p4r.DigestList | None:
        digest = self._numbered[number]
        if digest is None or digest.id not in self._configs:
            return None
        config, state = self._configs[digest.id], self._states[digest.id]
        state.expire(now - config.ack_timeout_ns)
        if values in state.gathered or values in state.cache:
            return None
        if not state.gathered:
            state.first = now
        state.gathered[values] = None
        if config.max_timeout_ns == 0 or 0 < config.max_list_size <= len(state.gathered):
            return self._list(digest, now)
        return None

    def acknowledge(self, ack: p4r.DigestListAck) -> None:
        self._states[self._digest(ack.digest_id).id].acknowledge(ack.list_id)

    def due(self, now: int) -> list[p4r.DigestList]:
        return [
            self._list(self._digests[identity], now)
            for identity, state in self._states.items()
            if state.gathered and self._deadline(identity) <= now
        ]

    def next_deadline(self) -> int | None:
        return min((self._deadline(i) for i, state in self._states.items() if state.gathered), default=None)

    def forget(self) -> None:
        for state in self._states.values():
            state.forget()

    def _deadline(self, identity: int) -> int:
        return self._states[identity].first + self._configs[identity].max_timeout_ns

    def _list(self, digest: DigestInfo, now: int) -> p4r.DigestList:
        state = self._states[digest.id]
        state.list_id += 1
        if self._configs[digest.id].ack_timeout_ns:
            state.sent[state.list_id] = _SentList(tuple(state.gathered), now)
            state.cache.update(state.gathered)
        message = p4r.DigestList(digest_id=digest.id, list_id=state.list_id)
        message.data.extend(to_data(digest.shape, values) for values in state.gathered)
        state.gathered.clear()
        return message

    def _digest(self, identity: int) -> DigestInfo:
        digest = self._digests.get(identity)
        if digest is None:
            raise invalid(f"no digest has ID {identity}")
        return digest

    def _check_configured(self, digest: DigestInfo) -> None:
        if digest.id not in self._configs:
            raise Refusal(StatusCode.NOT_FOUND, f"digest {digest.name} is not configured")


def _entity(identity: int, config: Config) -> p4r.Entity:
    return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=identity, config=config))
