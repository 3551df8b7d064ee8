"""What a Fetch is answered while its broker is away: that the broker leads none of it.

A closed connection would take with it what the client has sent behind the Fetch; when it looks for
its coordinator, it would fetch first on the next connection again, and never find it. Pure.
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


def nothing_fetched(request: FetchRequest) -> FetchResponse:
    """NOT_LEADER_OR_FOLLOWER for every partition, and no session.

    For the partitions and not for the whole: only so does every client ask for Metadata, which says
    who leads now. Where the request names but what has changed in its session (KIP-227), the client
    is told that there is no such session; it then names all of them.
    """
    if request.session_epoch > 0:
        return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND, responses=())
    return FetchResponse(responses=tuple(_not_led(topic) for topic in request.topics))


def _not_led(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionData(
                partition_index=each.partition,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=_NOT_KNOWN,
                aborted_transactions=None,
                records=b"",
            )
            for each in topic.partitions
        ),
    )
