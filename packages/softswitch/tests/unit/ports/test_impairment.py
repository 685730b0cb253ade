import pytest

from softswitch.errors import PortError
from softswitch.ports.impairment import Direction, Impairment, parse_impairment
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from switch_harness.wording import mentions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:in:loss=0.05", ((1, Direction.IN), Impairment(loss=0.05))),
        ("12:out:dup=1", ((12, Direction.OUT), Impairment(duplicate=1.0))),
        (
            "2:out:loss=0.05,dup=0.1,reorder=0.2,seed=7",
            ((2, Direction.OUT), Impairment(loss=0.05, duplicate=0.1, reorder=0.2, seed=7)),
        ),
    ],
)
def test_an_impairment_flag_is_parsed(text: str, expected: object) -> None:
    assert parse_impairment(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:loss=0.1", "expected PORT:in|out:loss=P,dup=P,reorder=P,seed=N"),
        ("s1-eth1:in:loss=0.1", "'s1-eth1' is not a port number"),
        ("1:both:loss=0.1", "direction is 'both', expected 'in' or 'out'"),
        ("1:in:delay=0.1", "'delay' is not one of loss, dup, reorder, seed"),
        ("1:in:loss=1.5", "loss is '1.5', expected a probability from 0 to 1"),
        ("1:in:loss=nan", "loss is 'nan', expected a probability"),
        ("1:in:loss", "loss is '', expected a probability"),
        ("1:in:loss=0.1,loss=0.2", "loss is given twice"),
        ("1:in:loss=0.1,seed=-1", "seed is '-1', expected an integer of 0 or more"),
    ],
)
def test_a_wrong_impairment_flag_is_named(text: str, message: str) -> None:
    with pytest.raises(PortError) as raised:
        parse_impairment(text)
    assert text in str(raised.value)
    assert message in str(raised.value)


def test_impairment_of_an_unknown_port_is_refused() -> None:
    with pytest.raises(PortError, match=mentions("port 3", "out")):
        PortLoop({}, PortOptions(255, {(3, Direction.OUT): Impairment(loss=0.5)}))
