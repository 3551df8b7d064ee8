"""Commits with only some topics stored."""

import pytest

from gateway.requests.commit_parts import CommitRequest, join_answers, split
from gateway.requests.refusals import refusal
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import (
    OffsetCommitResponse,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitResponse,
)
from tests.support.commits import commit_of, transactional_commit_of

OFFSETS = {name: {0: 5} for name in ("a", "b", "c")}
COMMIT, IN_TRANSACTION = commit_of(OFFSETS), transactional_commit_of(OFFSETS)


@pytest.mark.parametrize("commit", [COMMIT, IN_TRANSACTION])
def test_each_topic_is_in_one_part_and_in_the_answer(commit: CommitRequest) -> None:
    """Stored topics come first, in the order of the cluster's answer."""
    refused, rest = split(commit, frozenset({"b", "x"}))
    assert [topic.name for topic in refused.topics] == ["b"]
    assert [topic.name for topic in rest.topics] == ["a", "c"]
    assert refused.group_id == rest.group_id == "g"
    answer = join_answers(
        refusal(rest, 5, ErrorCode.NONE, ""),
        refusal(refused, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
    )
    assert isinstance(answer, OffsetCommitResponse | TxnOffsetCommitResponse)
    codes = [
        (topic.name, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    assert codes == [("a", 0), ("c", 0), ("b", 3)]
