"""Digest lists without a clock: what is gathered, sent, suppressed and acknowledged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4runtime.entities.digests import DigestEntries
from softswitch.p4runtime.messages import adopt, p4r
from softswitch.p4runtime.p4info import P4Info
from softswitch.p4runtime.status import Refusal
from switch_harness.foreign import read_p4info
from switch_harness.p4runtime import DELETE, ENTITIES, INSERT, MODIFY, controlled

P4INFO = P4Info(adopt(read_p4info(ENTITIES)))
((DIGEST, _),) = P4INFO.digests.items()
MAC, PORT = 0x020000000001, 3


def write(digests: DigestEntries, kind: int = INSERT, timeout: int = 0, size: int = 0, ack: int = 0) -> None:
    batch = controlled(ENTITIES).batch()
    message = p4r.DigestEntry(digest_id=DIGEST)
    message.config.max_timeout_ns, message.config.max_list_size = timeout, size
    message.config.ack_timeout_ns = ack
    digests.write(kind, message, batch)
    batch.apply()


def configured(timeout: int = 0, size: int = 0, ack: int = 0) -> DigestEntries:
    digests = DigestEntries(P4INFO.digests, ["learned_t"])
    write(digests, INSERT, timeout, size, ack)
    return digests


def macs(message: p4r.DigestList | None) -> list[int]:
    assert message is not None
    return [int.from_bytes(data.struct.members[0].bitstring, "big") for data in message.data]


def test_a_message_has_the_members_of_its_type_in_canonical_form() -> None:
    message = configured().learn(0, (MAC, PORT), 0)
    assert message is not None
    assert (message.digest_id, message.list_id) == (DIGEST, 1)
    (data,) = message.data
    assert [m.bitstring for m in data.struct.members] == [b"\x02\0\0\0\0\x01", b"\x03"]


def test_nothing_is_sent_of_a_digest_that_is_not_configured() -> None:
    digests = DigestEntries(P4INFO.digests, ["learned_t"])
    assert digests.learn(0, (1, 1), 0) is None
    write(digests)
    assert macs(digests.learn(0, (1, 1), 0)) == [1]
    write(digests, DELETE)
    assert digests.learn(0, (2, 1), 0) is None


def test_a_list_is_sent_when_the_configured_size_is_reached() -> None:
    digests = configured(timeout=100, size=3)
    assert [digests.learn(0, (mac, 1), 0) for mac in (1, 2, 1, 2)] == [None] * 4
    assert macs(digests.learn(0, (3, 1), 0)) == [1, 2, 3]
    assert digests.next_deadline() is None


def test_a_list_is_sent_when_its_oldest_message_has_waited_long_enough() -> None:
    digests = configured(timeout=100)
    digests.learn(0, (1, 1), 50)
    digests.learn(0, (2, 1), 149)
    assert (digests.next_deadline(), digests.due_lists(149)) == (150, [])
    (message,) = digests.due_lists(150)
    assert (macs(message), digests.next_deadline()) == ([1, 2], None)


def test_a_digest_message_that_was_sent_is_suppressed_until_acknowledged() -> None:
    digests = configured(ack=1000)
    first = digests.learn(0, (1, 1), 0)
    assert first is not None
    assert digests.learn(0, (1, 1), 10) is None
    digests.acknowledge(p4r.DigestListAck(digest_id=DIGEST, list_id=first.list_id + 1))
    assert digests.learn(0, (1, 1), 20) is None
    digests.acknowledge(p4r.DigestListAck(digest_id=DIGEST, list_id=first.list_id))
    second = digests.learn(0, (1, 1), 30)
    assert second is not None
    assert second.list_id == first.list_id + 1


def test_without_acknowledgement_a_digest_message_is_sent_again_after_the_timeout() -> None:
    digests = configured(ack=1000)
    assert macs(digests.learn(0, (1, 1), 0)) == [1]
    assert digests.learn(0, (1, 1), 999) is None
    assert macs(digests.learn(0, (1, 1), 1000)) == [1]


def test_a_new_controller_gets_digest_messages_that_were_sent_before() -> None:
    digests = configured(ack=1000)
    digests.learn(0, (1, 1), 0)
    digests.forget()
    assert macs(digests.learn(0, (1, 1), 1)) == [1]


def test_a_missing_digest_cannot_be_acknowledged() -> None:
    with pytest.raises(Refusal, match="no digest has ID 9") as refusal:
        configured().acknowledge(p4r.DigestListAck(digest_id=9))
    assert refusal.value.code.name == "INVALID_ARGUMENT"


def test_a_shorter_list_size_takes_effect_with_the_next_message() -> None:
    digests = configured(timeout=100, size=10)
    for mac in range(4):
        digests.learn(0, (mac, 1), 0)
    write(digests, MODIFY, timeout=100, size=2)
    assert macs(digests.learn(0, (9, 1), 0)) == [0, 1, 2, 3, 9]


EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.one_of(st.integers(1, 4), st.tuples(st.just("ack"), st.integers(1, 8))))
)


@given(EVENTS, st.integers(0, 50), st.integers(0, 3), st.integers(0, 60))
def test_digest_lists_equal_the_pseudo_code_of_the_specification(
    events: list[tuple[int, int | tuple[str, int]]], timeout: int, size: int, ack: int
) -> None:
    """Against P4Runtime 1.4's pseudo-code, with each timeout at its time."""
    digests, now, sent = configured(timeout, size, ack), 0, []
    buffer: list[int] = []
    first, lists = 0, 0
    cache: list[tuple[int, int, list[int]]] = []  # list ID, time, content
    expected = []

    def flush(time: int) -> None:
        nonlocal lists
        lists += 1
        expected.append(list(buffer))
        cache.append((lists, time, list(buffer)))
        buffer.clear()

    for pause, event in events:
        now += pause
        while (end := digests.next_deadline()) is not None and end <= now:
            sent += [macs(message) for message in digests.due_lists(end)]
        if buffer and first + timeout <= now:
            flush(first + timeout)
        cache = [entry for entry in cache if now - entry[1] < ack]
        if isinstance(event, tuple):
            digests.acknowledge(p4r.DigestListAck(digest_id=DIGEST, list_id=event[1]))
            cache = [entry for entry in cache if entry[0] != event[1]]
            continue
        message = digests.learn(0, (event, 1), now)
        sent += [macs(message)] if message is not None else []
        if event not in buffer and not any(event in content for _, _, content in cache):
            first = first if buffer else now
            buffer.append(event)
            if timeout == 0 or len(buffer) == size:
                flush(now)
    assert sent == expected
