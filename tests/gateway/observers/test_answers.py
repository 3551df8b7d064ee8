"""Answers by api and error code."""

from gateway.observers.answers import AnswerCounts
from kafka_codecs.heartbeat import HeartbeatResponse
from kafka_codecs.offset_commit import OffsetCommitResponse


def test_answers_count_by_type_and_code() -> None:
    """One without a code of its own counts with 0."""
    answers = AnswerCounts()
    answers.note(HeartbeatResponse(error_code=27))
    answers.note(OffsetCommitResponse(topics=()))
    assert answers.counts == {(HeartbeatResponse, 27): 1, (OffsetCommitResponse, 0): 1}
