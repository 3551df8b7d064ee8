"""Counts of answers, refusals and durations."""

from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Forwarded, Outcome, Refused, Unanswerable
from gateway.hosting.effects import Log
from gateway.observers.counts import BOUNDS_S, AnswerCounts, Durations, GroupCounts
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.offset_commit import OffsetCommitResponse


def test_a_duration_counts_up_to_its_bound() -> None:
    """A failure is counted separately."""
    durations = Durations()
    durations.record(BOUNDS_S[0], failed=False)
    durations.record(BOUNDS_S[0] * 1.01, failed=True)
    durations.record(BOUNDS_S[-1] + 1, failed=False)
    assert durations.counts[:2] == [1, 1]
    assert durations.counts[-1] == 1
    assert durations.failures == 1
    assert round(durations.total_s, 3) == round(BOUNDS_S[0] * 2.01 + BOUNDS_S[-1] + 1, 3)


def test_answers_count_by_type_and_code() -> None:
    """One without a code of its own counts with 0."""
    answers = AnswerCounts()
    answers.record(HeartbeatResponse(error_code=27))
    answers.record(OffsetCommitResponse(topics=()))
    assert answers.counts == {(HeartbeatResponse, 27): 1, (OffsetCommitResponse, 0): 1}


def test_refusals_count_by_their_situation() -> None:
    """Refused commits count one by one; decisions of the engine or the cluster do not count."""
    counts = GroupCounts()
    full = Refused(RefusalReason.TOO_MANY_GROUPS, "8 groups")
    counts.record_answer(full)
    counts.record_answer({1: Outcome(refused=full), 2: Outcome()})
    for other in (None, Forwarded(), Unanswerable()):
        counts.record_answer(other)
    assert counts.refusals == {RefusalReason.TOO_MANY_GROUPS: 2}


def test_a_lost_anchor_counts_when_the_log_says_so() -> None:
    """Other lines do not count."""
    counts = GroupCounts()
    for line in ("anchor_taken", "anchor_lost", "anchor_taken"):
        counts.record_line(Log("info", line))
    assert counts.anchors_lost == 1
