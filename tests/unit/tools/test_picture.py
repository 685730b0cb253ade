"""The picture of README is what `tools.picture` draws, and shows every lane once."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from foundation.checkout import ROOT
from tools.picture import SCHEMES, SHOWN_LANES, draw_push, path_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_committed_picture_equals_the_drawn_picture(scheme: str) -> None:
    assert path_of(scheme).read_text() == draw_push(SCHEMES[scheme])
    assert f'"docs/{path_of(scheme).name}"' in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_hot_lane_adds_to_one_register_and_each_other_lane_to_none(scheme: str) -> None:
    colours = SCHEMES[scheme]
    cells = [
        cell
        for cell in ElementTree.fromstring(draw_push(colours)).iter(f"{SVG}rect")
        if cell.get("opacity") == "1"
    ]
    lanes = [cell.get("fill") for cell in cells if cell.get("height") == "30"]
    hot, cold = sum(SHOWN_LANES), len(SHOWN_LANES) - sum(SHOWN_LANES)
    assert sorted(map(str, lanes)) == sorted([colours.hot] * hot + [colours.cold] * cold)
    assert [cell.get("fill") for cell in cells if cell.get("height") == "22"] == [colours.hot] * hot
