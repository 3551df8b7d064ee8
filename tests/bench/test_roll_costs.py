"""What a roll costs, from made-up callbacks."""

import re
from dataclasses import replace

import pytest

from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import AssignedReport, ClosedReport, RevokedReport
from tests.bench.roll_costs import (
    FIGURES,
    REASONS,
    RollStep,
    costs_of,
    idle_times,
    medians,
    merge_tables,
    plot_of,
    table_of,
)

PARTITIONS = 4
STEP = RollStep(member="a", protocol="consumer", started_s=9.5, settled_s=12.0, floor_s=2.0)


def ledger() -> Ledger:
    """`a` is restarted and is away for a second, and `b` must give up partition 2 meanwhile."""
    made = Ledger(PARTITIONS)
    old, new = Process(member="a", incarnation=1), Process(member="a", incarnation=3)
    other = Process(member="b", incarnation=2)
    made.record(old, AssignedReport(at_s=0.0, partitions=(0, 1)))
    made.record(other, AssignedReport(at_s=0.0, partitions=(2, 3)))
    made.record(old, ClosedReport(at_s=10.0))
    made.record(other, RevokedReport(at_s=10.5, partitions=(2,)))
    made.record(other, AssignedReport(at_s=11.0, partitions=(2,)))
    made.record(new, AssignedReport(at_s=11.5, partitions=(0,)))
    made.record(other, AssignedReport(at_s=12.0, partitions=(1,)))
    return made


def test_costs_are_those_of_the_steps() -> None:
    costs = costs_of(ledger(), PARTITIONS, [STEP])
    assert costs == {
        "idle": pytest.approx(1.5 + 2.0 + 0.5),
        "above_floor": pytest.approx(2.0),
        "disturbed": 1,
        "moved": 1,
        "twice": 0,
        "settle_s": pytest.approx(2.5),
        "worst_s": pytest.approx(2.0),
    }
    assert costs.keys() == FIGURES.keys() - {"load"}


def test_each_idle_time_has_its_reason() -> None:
    reasons = {gap.partition: gap.reason for gap in idle_times(ledger(), PARTITIONS, [STEP])}
    assert reasons == {0: "restarted", 1: "moved", 2: "revoked"}


def test_idle_times_before_the_roll_do_not_count() -> None:
    later = RollStep(member="a", protocol="classic", started_s=20.0, settled_s=21.0, floor_s=0.0)
    assert list(idle_times(ledger(), PARTITIONS, [later])) == []


def test_repeated_runs_count_by_their_medians() -> None:
    runs = [dict.fromkeys(FIGURES, value) for value in (1.0, 9.0, 2.0)]
    assert medians(runs) == dict.fromkeys(FIGURES, 2.0)


def test_the_table_has_a_line_for_each_arm() -> None:
    text = table_of({"eager": {"ours": dict.fromkeys(FIGURES, 1.0), "theirs": "FATAL|refused"}})
    assert text.splitlines()[2:] == [
        "| eager | ours | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |",
        "| eager | theirs | FATAL/refused |  |  |  |  |  |  |  |",
    ]


def test_rows_that_were_not_measured_again_stay() -> None:
    """Rows are dropped if the columns have changed."""
    ones, twos = dict.fromkeys(FIGURES, 1.0), dict.fromkeys(FIGURES, 2.0)
    committed = table_of({"eager": {"ours": ones, "theirs": ones}})
    table = table_of({"eager": {"ours": twos}, "static": {"ours": twos}})
    assert merge_tables(f"Words.\n\n{committed}", table) == table_of(
        {"eager": {"ours": twos, "theirs": ones}, "static": {"ours": twos}}
    )
    assert merge_tables(committed.replace("| load average |", "| other |"), table) == table


def test_the_plot_shows_whose_partitions_were_idle_in_each_step() -> None:
    later = replace(STEP, member="<b>", started_s=20.0, settled_s=21.0)
    drawn = plot_of("eager <1 s>", ledger(), PARTITIONS, [STEP, later])
    words = re.findall(r">([^<>\n]+)</t", drawn)
    assert words == [
        "eager &lt;1 s&gt;, in seconds since the request to leave",
        *REASONS,
        *("1. a consumer", "settled after 2.50 s"),
        *("1 of a", "0.50 to 2.00 s, restarted: 0"),
        *("1 of a, then b", "0.50 to 2.50 s, moved: 1"),
        *("1 of b", "1.00 to 1.50 s, revoked: 2"),
        *("2. &lt;b&gt; consumer", "settled after 1.00 s"),
    ]
