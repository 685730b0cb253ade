"""What all calls have in common: the pipeline that they are about, and updates of it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from softswitch.errors import SwitchError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.direct_meters import set_meter
from softswitch.p4runtime.entities.store import PLAIN, Key, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.pipelines import Pipelines, RunnablePipeline
from softswitch.pipeline import MeterConfig
from softswitch.runtime.interface import Rate
from softswitch.runtime.refusals import RuntimeRefusal

PL = TypeVar("PL", bound=RunnablePipeline)
_MICROSECONDS = 1e6
_RATES = 2


class Base(Generic[PL]):
    """Calls on the program that packets meet, or on the one that is made ready to follow it."""

    def __init__(self, pipelines: Pipelines[PL]) -> None:
        self._pipelines = pipelines
        self._ready: ControlledPipeline[PL] | None = None

    def control(self) -> ControlledPipeline[PL]:
        """What calls are about; `SwitchError` where there is no program."""
        control = self._ready or self._pipelines.met
        if control is None:
            raise SwitchError("Error: the switch runs no program yet")
        return control

    def not_kept(self, what: str) -> ControlledPipeline[PL]:
        """The same for what P4Runtime cannot express: the next switch that goes on with it could not know."""
        control = self.control()
        if control.is_kept:
            raise SwitchError(f"Error: {what} cannot be kept: start the switch without --pin")
        return control


def update(control: ControlledPipeline[Any], kind: int, entity: p4r.Entity) -> None:
    """One update, as P4Runtime has it; `Refusal`."""
    message = p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]  # an enum's value
    for refusal in control.write(p4r.WriteRequest(updates=[message], atomicity=_EACH)):
        if refusal is not None:
            raise refusal


def set_entry_meter(
    control: ControlledPipeline[Any], store: TableStore, key: Key, config: MeterConfig
) -> None:
    """Configure the direct meter of an entry; rates may have fractions, which P4Runtime's have not."""
    batch = control.batch()
    batch.put(store.notes, key, store.notes.get(key, PLAIN)._replace(meter=config))
    batch.add(set_meter(store, key, config))
    batch.apply()


def is_whole(config: MeterConfig) -> bool:
    """Whether P4Runtime can express it."""
    return all(rate == int(rate) for rate in config)


def config_of(rates: list[Rate]) -> MeterConfig:
    """A meter's configuration by its rates: the committed one and the peak one."""
    if len(rates) != _RATES:
        raise RuntimeRefusal("meter", "BAD_RATES_LIST", f"a meter has {_RATES} rates, not {len(rates)}")
    (low, burst), (high, peak_burst) = ((each["rate"], each["burst"]) for each in rates)
    if not 0 <= low <= high:
        text = f"rates {low} and {high}: the second is not below the first, and neither is negative"
        raise RuntimeRefusal("meter", "INVALID_INFO_RATE_VALUE", text)
    if min(burst, peak_burst) < 0:
        text = f"burst {min(burst, peak_burst)} is negative"
        raise RuntimeRefusal("meter", "INVALID_BURST_SIZE_VALUE", text)
    return MeterConfig(_per_second(low), burst, _per_second(high), peak_burst)


def rates_of(config: MeterConfig | None) -> list[Rate]:
    """The inverse of `config_of`."""
    if config is None:
        return []
    return [
        Rate(rate=config.committed_rate / _MICROSECONDS, burst=config.committed_burst),
        Rate(rate=config.peak_rate / _MICROSECONDS, burst=config.peak_burst),
    ]


def _per_second(rate: float) -> float:
    """A rate a second, whole where it is but for the last bits."""
    per_second = rate * _MICROSECONDS
    whole = round(per_second)
    return whole if abs(per_second - whole) <= 1e-9 * whole else per_second


_EACH = p4r.WriteRequest.CONTINUE_ON_ERROR
