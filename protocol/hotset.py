"""The arms of the design `hotset`: the hottest parameters in the switch, and the switch as a proxy."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.arms import Arm

DESIGN = "hotset"


@dataclass(frozen=True, slots=True)
class HotSet:
    """What of the switch an arm uses."""

    offload: bool = False
    """The hot set is in the switch, in slots of its own."""
    proxy: bool = False
    """The switch is the workers' one connection to each PS."""

    @property
    def aggregates(self) -> bool:
        """With the hot set in it the switch adds up what is pushed."""
        return self.offload


# fmt: off
PROFILE = Arm("profile", 1, DESIGN, HotSet(offload=True), "#000000", is_measured=False,
              about="that trains for the update log, and under the hot set's load")
NEITHER = Arm("neither", 2, DESIGN, HotSet(), "#7f7f7f",
              about="with all parameters at the servers, and a connection for each worker")
AGAIN = Arm("again", 6, DESIGN, HotSet(), "#b4b4b4", baseline="neither",
            about="that is neither once more",
            note="The differences of the arm again are noise, and show how much of it there is.")
PROXY = Arm("proxy", 3, DESIGN, HotSet(proxy=True), "#3b7dd8", baseline="neither",
            about="in which the switch is the workers' one connection to each server",
            note="The arm proxy should show nothing with few workers: its effect ([DDL] Fig. 9) needs "
            "hundreds of connections.",
            told="with the proxy alone ")
HOT = Arm("hot", 4, DESIGN, HotSet(offload=True), "#e07b1a", baseline="neither", told="",
          about="in which the switch holds the hottest parameters")
BOTH = Arm("both", 5, DESIGN, HotSet(offload=True, proxy=True), "#2c9a57", baseline="neither",
           about="that is hot and proxy together")
# fmt: on
ARMS = (PROFILE, NEITHER, AGAIN, PROXY, HOT, BOTH)


def settings_of(arm: Arm) -> HotSet:
    """What an arm of this design uses; raises `TypeError` for another design's."""
    if not isinstance(arm.settings, HotSet):
        raise TypeError(f"arm {arm.name} is of design {arm.design}, not {DESIGN}")
    return arm.settings
