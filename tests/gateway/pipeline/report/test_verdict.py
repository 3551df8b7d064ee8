"""The verdict expresses the totals in words."""

import pytest

from gateway.pipeline.report.model import Totals
from gateway.pipeline.report.verdict import headline, outcome, safety
from tests.support.reports import calm_report, client_version

CALM = calm_report().totals


def test_a_good_verdict_explains_its_checks() -> None:
    """Each check says what it looked for."""
    found = headline(CALM)
    assert (found.level, found.answer) == (
        "good",
        "Safe: no partition had two owners, and no committed offset went back.",
    )
    assert {check.level for check in safety(CALM)} == {"good"}


@pytest.mark.parametrize(
    ("field", "level", "start"),
    [
        ("overlaps", "bad", "Not safe: a partition was owned by two members at once (once)."),
        ("unsure", "bad", "Not proven safe: it is unsure whether a partition had two owners"),
        ("non_monotonic", "bad", "Not safe: a committed offset went back (once)."),
        ("lost_commits", "bad", "Not safe: a commit was lost: an owner was told less (once)."),
        ("missing_events", "bad", "Not proven safe: 1 event is missing"),
        ("contradictions", "bad", "Not proven safe: 1 event has two versions"),
        ("differences", "bad", "Not safe: a member claimed a partition that it was not granted"),
        ("skips", "warning", "As far as the events show, no partition had two owners"),
        ("rejected_lines", "warning", "As far as the events show, no partition had two owners"),
    ],
)
def test_each_finding_is_in_the_headline(field: str, level: str, start: str) -> None:
    """Its check links to the evidence."""
    totals = CALM.model_copy(update={field: 1})
    found = headline(totals)
    assert found.level == level
    assert found.answer.startswith(start)
    (check,) = [check for check in safety(totals) if check.level != "good"]
    assert (check.level, check.evidence) == (level, field)


def test_an_unreadable_event_is_more_than_garbage() -> None:
    """The content of a group's event is unknown, as if it were missing."""
    totals = CALM.model_copy(update={"rejected_lines": 3, "unread_events": 2})
    found = headline(totals)
    assert found.level == "bad"
    assert found.answer.startswith("Not proven safe: 2 events of a group could not be read")
    (check,) = [check for check in safety(totals) if check.level != "good"]
    assert (check.level, check.evidence) == ("bad", "rejected_lines")


def test_all_findings_are_in_the_headline() -> None:
    """The reader need not read on to learn of the second one."""
    totals = CALM.model_copy(update={"overlaps": 3, "non_monotonic": 2, "missing_events": 1_000})
    assert headline(totals).answer == (
        "Not safe: a partition was owned by two members at once (3 times);"
        " a committed offset went back (2 times);"
        " 1,000 events are missing, so what happened there is unknown."
    )


def test_no_data_is_no_success() -> None:
    """Without events nothing is called safe."""
    assert headline(Totals()).level == "none"
    assert headline(Totals(missing_events=1)).level == "bad"


def test_progress_cost_and_next_steps_are_summarised() -> None:
    """Each has one sentence."""
    groups = {"groups": 6, "groups_mixed": 1, "groups_on_classic": 3}
    totals = CALM.model_copy(update={**groups, "migrations": 2, "migrations_back": 1})
    clients = (client_version("a", "1", ready=3), client_version("b", "1", ready=1, too_old=1))
    assert list(outcome(totals, clients)) == [
        "On the consumer protocol at the end: 1 of 6 groups; with members of both protocols: 1;"
        " on the classic protocol: 3. 2 migrations, 1 of them back to the classic protocol;"
        " 1 completed.",
        "8.4 partition-seconds without an owner, 8.4 of them during migrations.",
        "4 rebalances interrupted members 6 times; 14 partitions changed hands, where 12 would"
        " have been enough.",
        "4 members can switch to the consumer protocol now.",
        "1 member must be upgraded first: the version is too old.",
    ]


def test_a_round_trip_has_completed() -> None:
    """Its groups are where they were, as if nothing had been achieved."""
    where = {"groups": 1, "groups_on_classic": 1}
    trip = {"migrations": 2, "migrations_back": 1, "migrations_complete": 2}
    progress = next(outcome(CALM.model_copy(update={**where, **trip}), ()))
    assert progress.endswith("2 migrations, 1 of them back to the classic protocol; all completed.")
