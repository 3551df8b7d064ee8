"""The answer to a Fetch whose broker is away. Pure.

A closed connection would lose the requests behind the Fetch. A client that looks for its
coordinator would then send its Fetch first again on the next connection, and never find the
coordinator.
"""

from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_SESSION_ID_NOT_FOUND = 70

_NOT_KNOWN = -1


def answer_without_records(request: FetchRequest) -> FetchResponse:
    """NOT_LEADER_OR_FOLLOWER for every partition, without a session.

    An error per partition makes every client refresh its metadata; an error for the whole answer
    does not. In an incremental session (KIP-227) the request names only what changed, so the answer
    is that the session does not exist, and the client's next Fetch names all partitions.
    """
    if request.session_epoch > 0:
        return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND, responses=())
    return FetchResponse(responses=tuple(_refuse_topic(topic) for topic in request.topics))


def _refuse_topic(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionData(
                partition_index=partition.partition,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=_NOT_KNOWN,
                aborted_transactions=None,
                records=b"",
            )
            for partition in topic.partitions
        ),
    )
