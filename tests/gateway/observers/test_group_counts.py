"""The drivers' counts."""

from gateway.hosting.answers import Situation
from gateway.hosting.calls import Failed, Forwarded, Outcome, Refused
from gateway.hosting.effects import Log
from gateway.observers.group_counts import GroupCounts


def test_refusals_count_by_their_situation() -> None:
    """Those of commits one by one; what the engine or the cluster has decided does not count."""
    counts = GroupCounts()
    full = Refused(Situation.TOO_MANY_GROUPS, "8 groups")
    counts.note_answer(full)
    counts.note_answer({1: Outcome(refused=full), 2: Outcome()})
    for other in (None, Forwarded(), Failed()):
        counts.note_answer(other)
    assert counts.refusals == {Situation.TOO_MANY_GROUPS: 2}


def test_a_lost_anchor_counts_when_the_log_says_so() -> None:
    """Other lines do not count."""
    counts = GroupCounts()
    for line in ("anchor_taken", "anchor_lost", "anchor_taken"):
        counts.note_line(Log("info", line))
    assert counts.anchors_lost == 1
