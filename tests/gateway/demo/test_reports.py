"""Reports of a child process to the demo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo import reports
from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ConsumedReport,
    LostReport,
    ProducedReport,
    Report,
)


@pytest.mark.parametrize(
    "report",
    [
        AssignedReport(at_s=1.5, partitions=(0, 11)),
        LostReport(at_s=1.5, partitions=()),
        ClosedReport(at_s=2.0),
        ConsumedReport(at_s=3.0, partition=1, runs=((0, 13, 12), (25, 26, 1))),
        CommittedReport(at_s=3.0, offsets=((0, 5), (1, 7))),
        ProducedReport(at_s=1.0, acknowledged=3, failed=0, end_offsets=(2, 1), final=True),
    ],
)
def test_a_report_survives_its_line(report: Report) -> None:
    """The parent receives the child's report, which is one line."""
    line = reports.encode(report)
    assert "\n" not in line
    assert reports.decode(line) == report


@pytest.mark.parametrize(
    "line", ["", "no json", "[]", "1", '{"kind":"gossip"}', '{"kind":"closed"}', '{"kind":[]}']
)
def test_other_output_is_refused(line: str) -> None:
    """A child that prints anything else has a bug."""
    with pytest.raises(ValueError, match=r".+"):
        reports.decode(line)


@given(st.lists(st.integers(min_value=0, max_value=50)))
def test_runs_contain_exactly_the_numbers(numbers: list[int]) -> None:
    """Order and repetition do not matter."""
    unfolded = [number for run in reports.as_runs(numbers) for number in range(*run)]
    assert unfolded == numbers


def test_a_batch_of_one_partition_is_one_run() -> None:
    """That keeps reports short."""
    assert reports.as_runs(range(3, 999, 12)) == ((3, 999, 12),)
