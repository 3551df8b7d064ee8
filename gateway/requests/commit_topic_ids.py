"""Transactional commits with topic ids: adds the names to a commit, and the ids to its answer.

The engine, the events and brokers before Kafka 4.4 know topics by name. Pure functions on decoded
messages; the caller supplies the names.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

FIRST_VERSION_WITH_TOPIC_IDS = 6


def split_by_existence(
    message: TxnOffsetCommitRequest, names: Mapping[UUID, str]
) -> tuple[TxnOffsetCommitRequest, TxnOffsetCommitRequest]:
    """The commit for existing topics, with names and ids, and the commit for the other topics."""
    topics = tuple(
        replace(topic, name=names[topic.topic_id])
        for topic in message.topics
        if topic.topic_id in names
    )
    unknown = tuple(topic for topic in message.topics if topic.topic_id not in names)
    return replace(message, topics=topics), replace(message, topics=unknown)


def complete_topics(
    answer: TxnOffsetCommitResponse, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """The answer with both name and id of each topic; a broker returns only one of them."""
    by_id = {t.topic_id: t for t in message.topics if t.topic_id != NO_TOPIC_ID}
    by_name = {topic.name: topic for topic in by_id.values()}
    topics = tuple(
        replace(topic, name=requested.name, topic_id=requested.topic_id)
        if (requested := by_id.get(topic.topic_id) or by_name.get(topic.name))
        else topic
        for topic in answer.topics
    )
    return replace(answer, topics=topics)
