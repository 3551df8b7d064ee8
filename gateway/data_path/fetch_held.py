"""Changes a Fetch that names private topics: the broker answers at once, with a size that can be
held in memory, and outside of any session, since a session names a topic only once. Pure."""

from dataclasses import replace

from kafka_codecs.fetch import FetchRequest

FETCHED_BYTES_MAX = 1024 * 1024
"""The broker exceeds this only if the first batch is longer."""

_NO_SESSION_ID, _NO_SESSION_EPOCH = 0, -1


def held_fetch(request: FetchRequest) -> FetchRequest:
    """The same topics from the same offsets."""
    return replace(
        request,
        max_wait_ms=0,
        max_bytes=min(request.max_bytes, FETCHED_BYTES_MAX),
        session_id=_NO_SESSION_ID,
        session_epoch=_NO_SESSION_EPOCH,
        forgotten_topics_data=(),
    )
