"""What the gateway told about the lag of a group after a switch."""

from gateway.events.group_events import GroupCreated, StepMadeWorse
from tests.support.event_writer import EventWriter, seconds
from tests.support.folded_lines import folded


def test_each_told_setback_is_a_row() -> None:
    """With the lag before and after. Other events say nothing of it."""
    writer = EventWriter()
    writer.tell(1, GroupCreated(kind="classic"))
    worse = StepMadeWorse(
        client_id="payments-3",
        client_host="10.0.0.3",
        protocol="consumer",
        lag_before=10,
        lag_after=4_000,
        records_per_s_before=90.0,
        records_per_s_after=20.5,
    )
    writer.beside(60, worse)
    (row,) = folded(*writer.lines).worse_steps
    assert (row.client_id, seconds(row.at_ms), row.client_lag) == ("payments-3", 60, None)
    assert (row.lag_before, row.lag_after) == (10, 4_000)
    assert (row.records_per_s_before, row.records_per_s_after) == (90.0, 20.5)
