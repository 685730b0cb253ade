"""The hot set: the switch keeps the parameters that are updated most, and is a proxy for connections."""

from pathlib import Path

from designs.interface import Design

DESIGN = Design(
    name="hotset",
    summary="the switch aggregates the hottest parameters, and is a proxy for connections",
    promise="no acknowledged update, whatever dies but a worker, with durable servers and replay logs",
    program=Path(__file__).parents[1] / "p4src" / "compiled" / "hotline.json",
    agents_module="hosts.hotset.agents",
    control_module="controller.hotset",
    has_hot_set=True,
    has_services=True,
    is_durable=True,
)
