"""Arbitration without I/O: which controller is primary, and which messages each gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.p4runtime.arbitration import MAX_CONTROLLERS, Arbiter
from softswitch.p4runtime.codecs.values import decode_uint128, encode_uint128
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal
from switch_harness.wording import mentions

OK, NOT_FOUND, ALREADY_EXISTS = 0, 5, 6


def bid(election_id: int | None, role: str = "", device_id: int = 1) -> p4r.MasterArbitrationUpdate:
    message = p4r.MasterArbitrationUpdate(device_id=device_id)
    if election_id is not None:
        message.election_id.CopyFrom(encode_uint128(election_id))
    if role:
        message.role.name = role
    return message


def reported(notices: list[tuple[str, p4r.StreamMessageResponse]]) -> dict[str, tuple[int, int]]:
    """Return controller -> (status code, election ID of the primary)."""
    return {
        process: (response.arbitration.status.code, decode_uint128(response.arbitration.election_id))
        for process, response in notices
    }


def test_the_highest_election_id_is_primary_and_all_are_notified() -> None:
    arbiter = Arbiter[str](1)
    assert reported(arbiter.update("a", bid(5))) == {"a": (OK, 5)}
    assert reported(arbiter.update("b", bid(3))) == {"b": (ALREADY_EXISTS, 5)}
    high = 1 << 100
    assert reported(arbiter.update("c", bid(high))) == {
        "a": (ALREADY_EXISTS, high),
        "b": (ALREADY_EXISTS, high),
        "c": (OK, high),
    }
    arbiter.check_write("", high)


def test_a_backup_takes_over_when_the_primary_leaves_or_steps_down() -> None:
    arbiter = Arbiter[str](1)
    for process, election_id in (("a", 5), ("b", 3), ("c", 4)):
        arbiter.update(process, bid(election_id))
    assert reported(arbiter.leave("a")) == {"b": (ALREADY_EXISTS, 4), "c": (OK, 4)}
    assert reported(arbiter.update("c", bid(1))) == {"b": (OK, 3), "c": (ALREADY_EXISTS, 3)}
    assert arbiter.leave("c") == []
    assert arbiter.leave("nobody") == []
    assert arbiter.primaries == ["b"]


def test_without_election_id_a_controller_is_never_primary() -> None:
    arbiter = Arbiter[str](1)
    ((_, response),) = arbiter.update("a", bid(None))
    assert response.arbitration.status.code == NOT_FOUND
    assert not response.arbitration.HasField("election_id")
    assert reported(arbiter.update("b", bid(0))) == {"a": (ALREADY_EXISTS, 0), "b": (OK, 0)}
    assert not arbiter.is_primary("a")
    assert arbiter.is_primary("b")


def test_roles_have_own_primaries() -> None:
    arbiter = Arbiter[str](1)
    arbiter.update("a", bid(5))
    ((_, response),) = arbiter.update("b", bid(2, role="reader"))
    assert (response.arbitration.role.name, response.arbitration.status.code) == ("reader", OK)
    assert arbiter.primaries == ["a", "b"]
    arbiter.check_write("reader", 2)


@pytest.mark.parametrize(
    ("role", "election_id", "code", "message"),
    [
        ("", 4, "PERMISSION_DENIED", "not primary: election ID 4 is given, the primary has 5"),
        ("", None, "PERMISSION_DENIED", "not primary: no election ID is given, the primary has 5"),
        ("reader", 5, "PERMISSION_DENIED", "not primary: election ID 5 is given, the primary has 2"),
        ("left", 1, "NOT_FOUND", "role 'left' has no controller"),
        ("new", 5, "NOT_FOUND", "role 'new' has no controller"),
    ],
)
def test_only_the_primary_writes(role: str, election_id: int | None, code: str, message: str) -> None:
    arbiter = Arbiter[str](1)
    for process, message_of in (("a", bid(5)), ("b", bid(2, role="reader")), ("c", bid(1, role="left"))):
        arbiter.update(process, message_of)
    arbiter.leave("c")
    with pytest.raises(Refusal) as refusal:
        arbiter.check_write(role, election_id)
    assert (refusal.value.code.name, str(refusal.value)) == (code, message)


def test_wrong_bids_end_the_stream_with_the_code_of_the_specification() -> None:
    arbiter = Arbiter[str](1)
    arbiter.update("a", bid(5))
    with_config = bid(9, role="r")
    with_config.role.config.SetInParent()
    for process, message, code, text in [
        ("b", bid(5), "INVALID_ARGUMENT", "election ID 5 is used by another controller"),
        ("b", bid(1, device_id=2), "NOT_FOUND", "device 2 is not here, this is device 1"),
        ("a", bid(1, device_id=2), "FAILED_PRECONDITION", "device 2 is not here, this is device 1"),
        ("a", bid(6, role="r"), "FAILED_PRECONDITION", "this stream's role is '', not 'r'"),
        (
            "b",
            with_config,
            "INVALID_ARGUMENT",
            "role 'r': role configurations are not supported, leave role.config unset",
        ),
    ]:
        with pytest.raises(Refusal) as refusal:
            arbiter.update(process, message)
        assert (refusal.value.code.name, str(refusal.value)) == (code, text)
    for number in range(1, MAX_CONTROLLERS):
        arbiter.update(str(number), bid(100 + number))
    with pytest.raises(Refusal, match=mentions(16, "controllers")):
        arbiter.update("late", bid(1))
    arbiter.check_write("", 100 + MAX_CONTROLLERS - 1)


def test_roles_without_controllers_are_forgotten() -> None:
    """Names are any text, so those of roles that are gone must not take memory."""
    arbiter = Arbiter[int](1)
    for number in range(1000):
        arbiter.update(number, bid(1, role=f"role {number}"))
        arbiter.update(number + 1000, bid(0, role=f"role {number}"))
        with pytest.raises(Refusal):  # leaves no role, either
            arbiter.update(number, bid(1, role=f"other {number}"))
        arbiter.leave(number)
        arbiter.check_write(f"role {number}", 0)
        arbiter.leave(number + 1000)
    assert list(arbiter._roles) == [""]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.just("leave"), st.integers(0, 5))), max_size=30
)


@given(EVENTS)
def test_the_last_arbitration_message_is_correct(events: list[tuple[str, str | int | None]]) -> None:
    arbiter = Arbiter[str](1)
    live: dict[str, int | None] = {}
    last: dict[str, int] = {}
    for process, event in events:
        if isinstance(event, str):
            notices = arbiter.leave(process)
            live.pop(process, None)
            last.pop(process, None)
        elif event is not None and event in [i for other, i in live.items() if other != process]:
            continue
        else:
            notices = arbiter.update(process, bid(event))
            live[process] = event
        for other, (code, _) in reported(notices).items():
            last[other] = code
        best = max((i for i in live.values() if i is not None), default=None)
        for other, election_id in live.items():
            expected = NOT_FOUND if best is None else OK if election_id == best else ALREADY_EXISTS
            assert last[other] == expected
