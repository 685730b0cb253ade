"""Functions common to all calls: finding the pipeline that a call refers to, and updating it."""

from __future__ import annotations

from typing import Generic, TypeVar

from softswitch.errors import SwitchError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.direct import make_meter_step
from softswitch.p4runtime.entities.store import NO_EXTRAS, Key, TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.p4runtime.ports import RunnablePipeline
from softswitch.pipeline import MeterConfig
from softswitch.runtime.interface import RuntimeRate
from softswitch.runtime.refusals import RuntimeRefusal

PL = TypeVar("PL", bound=RunnablePipeline)
_CONTINUE_ON_ERROR = p4r.WriteRequest.CONTINUE_ON_ERROR
_US_PER_S = 1e6
_ROUNDING_ERROR = 1e-9  # relative, of a product of floats
_RATES_PER_METER = 2


class RuntimeCalls(Generic[PL]):
    def __init__(self, pipelines: Pipelines[PL]) -> None:
        self._pipelines = pipelines

    def control(self) -> ControlledPipeline[PL]:
        control = self._pipelines.prepared or self._pipelines.active
        if control is None:
            raise SwitchError("Error: the switch runs no program yet")
        return control

    def require_unpinned(self, setting: str) -> ControlledPipeline[PL]:
        """Return the pipeline; raises SwitchError if it is pinned.

        `setting` cannot be expressed in P4Runtime, so it would be missing in the journal that the next switch
        replays.
        """
        control = self.control()
        if control.has_journal:
            raise SwitchError(f"Error: {setting} cannot be persisted: start the switch without --pin")
        return control


def update(control: ControlledPipeline[PL], update_type: int, entity: p4r.Entity) -> None:
    message = p4r.Update(type=update_type, entity=entity)  # type: ignore[arg-type]  # an enum's value
    for refusal in control.write(p4r.WriteRequest(updates=[message], atomicity=_CONTINUE_ON_ERROR)):
        if refusal is not None:
            raise refusal


def set_entry_meter(
    control: ControlledPipeline[PL], store: TableStore, key: Key, config: MeterConfig
) -> None:
    """Configure the direct meter of an entry; unlike P4Runtime's, rates may have fractions."""
    batch = control.batch()
    batch.put(store.extras, key, store.extras.get(key, NO_EXTRAS)._replace(meter=config))
    batch.add(make_meter_step(store, key, config))
    batch.apply()


def has_integer_rates(config: MeterConfig) -> bool:
    """Return whether P4Runtime can express the rates, which are integers there."""
    return all(rate == int(rate) for rate in config)


def make_meter_config(rates: list[RuntimeRate]) -> MeterConfig:
    if len(rates) != _RATES_PER_METER:
        raise RuntimeRefusal(
            "meter", "BAD_RATES_LIST", f"a meter has {_RATES_PER_METER} rates, not {len(rates)}"
        )
    (committed_rate, committed_burst), (peak_rate, peak_burst) = (
        (rate["rate"], rate["burst"]) for rate in rates
    )
    if not 0 <= committed_rate <= peak_rate:
        text = f"expected two rates of 0 or more in ascending order, got {committed_rate} and {peak_rate}"
        raise RuntimeRefusal("meter", "INVALID_INFO_RATE_VALUE", text)
    if min(committed_burst, peak_burst) < 0:
        text = f"expected a burst of 0 or more, got {min(committed_burst, peak_burst)}"
        raise RuntimeRefusal("meter", "INVALID_BURST_SIZE_VALUE", text)
    return MeterConfig(_per_second(committed_rate), committed_burst, _per_second(peak_rate), peak_burst)


def make_rates(config: MeterConfig | None) -> list[RuntimeRate]:
    if config is None:
        return []
    return [
        RuntimeRate(rate=config.committed_rate / _US_PER_S, burst=config.committed_burst),
        RuntimeRate(rate=config.peak_rate / _US_PER_S, burst=config.peak_burst),
    ]


def _per_second(rate: float) -> float:
    """Convert a rate per µs to a rate per second, rounded if only the last bits differ from an integer."""
    per_second = rate * _US_PER_S
    rounded = round(per_second)
    return rounded if abs(per_second - rounded) <= _ROUNDING_ERROR * rounded else per_second
