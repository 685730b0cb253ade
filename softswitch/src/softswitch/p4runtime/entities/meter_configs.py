"""Configurations of meters, checked against the meter's type (P4Runtime 1.4 §9.4)."""

from __future__ import annotations

from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.pipeline import MeterConfig


def decode_config(
    message: p4r.MeterConfig, meter_type: p4i.MeterSpec.Type.ValueType, location: str
) -> MeterConfig:
    config = MeterConfig(message.cir, message.cburst, message.pir, message.pburst)
    if min(*config, message.eburst) < 0:
        raise invalid(f"{location}: expected rates and bursts of at least 0, got {_format_config(message)}")
    if message.eburst and meter_type != p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
        raise invalid(f"{location}: eburst {message.eburst} is for single-rate three-color meters only")
    if message.eburst:
        raise unimplemented(f"{location}: meters with an excess burst are not supported")
    committed = config.committed_rate, config.committed_burst
    if meter_type != p4i.MeterSpec.TWO_RATE_THREE_COLOR and committed != (
        config.peak_rate,
        config.peak_burst,
    ):
        raise invalid(
            f"{location}: a single-rate meter needs pir=cir and pburst=cburst, got {_format_config(message)}"
        )
    return config


def refuse_color_counters(message: p4r.MeterEntry | p4r.DirectMeterEntry) -> None:
    if message.HasField("counter_data"):
        raise unimplemented("counters of meter colors are not supported")


def encode_config(config: MeterConfig, message: p4r.MeterConfig) -> None:
    """Fill in a configuration, rounded to integers per second, because messages have no fractions."""
    message.cir, message.cburst, message.pir, message.pburst = map(round, config)


def _format_config(message: p4r.MeterConfig) -> str:
    return (
        f"cir={message.cir} cburst={message.cburst} pir={message.pir} "
        f"pburst={message.pburst} eburst={message.eburst}"
    )
