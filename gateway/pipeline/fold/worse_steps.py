"""Steps after which a group fell behind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.events.group_events import StepMadeWorse
from gateway.pipeline.fold.history import History
from gateway.pipeline.fold.row import Row


@dataclass(slots=True, kw_only=True)
class WorseStepRow(Row):
    """Consumers after whose switch their group has fallen behind, or they themselves, as the
    gateway told (`step_made_worse`). Without such an event nothing is known of the lag."""

    client_id: str
    client_host: str
    protocol: Literal["classic", "consumer"]
    """The consumer's new protocol."""
    at_ms: int
    """When the gateway told it."""
    lag_before: int
    """The records that the group was behind before the switch."""
    lag_after: int
    """The same at `at_ms`."""
    records_per_s_before: float
    """What the group consumed in the minute before the switch, by its commits."""
    records_per_s_after: float
    """The same in the minute before `at_ms`."""
    client_lag: int | None
    """The records that the consumer's own partitions are behind; null if unknown."""


def worse_steps(history: History) -> Iterator[WorseStepRow]:
    """See `WorseStepRow`."""
    for told in history.of(StepMadeWorse):
        event = told.event
        assert isinstance(event, StepMadeWorse)
        yield WorseStepRow(
            cluster_id=history.cluster_id,
            group_id=history.group_id,
            client_id=event.client_id,
            client_host=event.client_host,
            protocol=event.protocol,
            at_ms=told.at_ms,
            lag_before=event.lag_before,
            lag_after=event.lag_after,
            records_per_s_before=event.records_per_s_before,
            records_per_s_after=event.records_per_s_after,
            client_lag=event.client_lag,
        )
