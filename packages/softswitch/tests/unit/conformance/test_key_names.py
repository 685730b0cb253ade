"""STF takes the names that p4c gives to keys (its `tableKeyNames.cpp`), quoted or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.conformance import statements as stf
from softswitch.conformance.client import read_p4info
from softswitch.conformance.errors import StfError
from softswitch.conformance.names import StfNames
from softswitch.conformance.parser import parse
from switch_harness import PROGRAMS
from switch_harness.wording import mentions

TABLE, ACTION = "L2Ingress.hosts", "L2Ingress.forward"
OF_P4C = [
    "meta.vt_bitmap[7:7]", "hdr.ethernet.srcAddr[22:18]", "hdr.ipv4.hdrChecksum[4:0]", "f[0x1f:0x10]",
    "hdr.ethernet.dstAddr & 0x10101010101", "a & b.c", "f[7:4] & 0x3", "hdrs.vlan_tag[meta.depth].vid",
    "h.h[h.i.index].a", "h.s[s[1].f].a", "meta.data[0].da", "hdr.u[0].short.$valid$", "mpls[0].$valid$",
    "hdr.h.$valid$", "standard_metadata.ingress_port", "x",
]  # fmt: skip
"""Names of keys in the P4Info of p4c's samples, and others of each form of its rules."""


def entry_key(key_name: str, written: str) -> int:
    """Return the value that an entry of STF has for a key whose name in P4Info is `key_name`."""
    p4info = read_p4info(PROGRAMS / "l2")
    (table,) = [table for table in p4info.tables if table.preamble.name == TABLE]
    table.match_fields[0].name = key_name
    (line,) = parse(f"add {TABLE} {written}:0x0b {ACTION}(port:2)", "f.stf")
    assert isinstance(line.statement, stf.Add)
    (value,) = StfNames(p4info).entry(line.statement).key
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("form", ["{}", '"{}"'])
@pytest.mark.parametrize("name", OF_P4C)
def test_names_of_keys_that_p4c_writes_are_accepted(name: str, form: str) -> None:
    assert entry_key(name, form.format(name)) == 0x0B


def test_a_suffix_may_have_a_slice() -> None:
    assert entry_key("meta.vt_bitmap[7:7]", "vt_bitmap[7:7]") == 0x0B
    with pytest.raises(StfError, match=mentions("match", "field")):
        entry_key("meta.vt_bitmap[7:7]", "vt_bitmap[6:6]")


WORDS = st.sampled_from(["a", "hdr", "f_1", "$valid$", "_x"])
NUMBERS = st.sampled_from(["0", "7", "31", "0x1f"])


def grow(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}.{}".format, names, WORDS),
        st.builds("{}[{}]".format, names, NUMBERS | names),
        st.builds("{}[{}:{}]".format, names, NUMBERS, NUMBERS),
    )


NAMES = st.recursive(WORDS, grow, max_leaves=6)


@given(NAMES | st.builds("{} & {}".format, NAMES, NUMBERS | NAMES))
def test_names_of_keys_follow_the_rules_of_p4c(name: str) -> None:
    assert entry_key(name, name) == 0x0B


@pytest.mark.parametrize("written", ["f[7", "f[7:", "f[:7]", "f[]", "f[7:7:7]", "f &", "f & & g", "f[0x*:1]"])
def test_an_invalid_name_of_a_key_is_refused(written: str) -> None:
    with pytest.raises(StfError, match="expected "):
        entry_key("f", written)
