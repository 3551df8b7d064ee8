"""Converts Metadata to versions that the upstream does not support. Pure functions on messages.

Topic ids came with v10, and requests by topic id with v12, which is all that v13 needs as well. The
caller supplies the topics' names.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from gateway.cluster.topics import requested_ids, topic_id_of
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import (
    AUTHORIZED_OPERATIONS_OMITTED,
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_AUTHORIZED_OPERATIONS_SINCE = 8


def lower_request(
    request: MetadataRequest, names: Mapping[UUID, str], version: int
) -> MetadataRequest:
    """The request by names only. Ids without a name are left out: `raise_answer` adds them."""
    if version < _AUTHORIZED_OPERATIONS_SINCE:
        request = replace(
            request,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=False,
        )
    if request.topics is None:
        return request
    topic_ids = requested_ids(request)
    requested = map(names.get, topic_ids) if topic_ids else [topic.name for topic in request.topics]
    once = dict.fromkeys(name for name in requested if name is not None)
    return replace(request, topics=tuple(MetadataRequestTopic(name=name) for name in once))


def refuse_ids(request: MetadataRequest) -> MetadataResponse:
    """The answer to a request by id of a version that has ids, but no requests by them."""
    return MetadataResponse(
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        )
    )


def raise_answer(
    answer: MetadataResponse, request: MetadataRequest, names: Mapping[UUID, str]
) -> MetadataResponse:
    """The answer with topic ids, and with an error for each id without a topic.

    As in Kafka, a client that may not see a topic does not learn its name from the id.
    """
    topic_ids = requested_ids(request)
    topics_by_id = {
        topic_id_of(topic, answer.cluster_id): topic.name
        for topic in answer.topics
        if not topic.error_code
    }
    # The topic that an id belonged to may be gone, and another one may have its name.
    unknown = [topic_id for topic_id in topic_ids if topic_id not in topics_by_id]
    shown = {topics_by_id.get(topic_id) for topic_id in topic_ids}
    hidden = {names.get(topic_id) for topic_id in unknown} - shown
    topics = [
        replace(topic, topic_id=topic_id_of(topic, answer.cluster_id))
        if not topic.error_code
        else replace(topic, topic_id=NO_TOPIC_ID)
        for topic in answer.topics
        if topic.name not in hidden
    ]
    topics += [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        for topic_id in unknown
    ]
    # Before 2.8 brokers state them even if the client has not requested them.
    operations = (
        answer.cluster_authorized_operations
        if request.include_cluster_authorized_operations
        else AUTHORIZED_OPERATIONS_OMITTED
    )
    return replace(answer, topics=tuple(topics), cluster_authorized_operations=operations)
