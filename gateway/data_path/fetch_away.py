"""What a Fetch is answered while its broker is away: nothing, and that the broker leads nothing.

A closed connection would take with it what the client has sent behind the Fetch; when it looks for
its coordinator, it would fetch first on the next connection again, and never find it. Pure.
"""

import struct

from kafka_codecs.apis import ApiKey
from kafka_codecs.header import encode_response_header

NOT_LEADER_OR_FOLLOWER = 6
"""Lets a client ask for Metadata, which then says that there is no leader for now."""

FIRST_VERSION_WITH_ERROR = 7
"""Before it only partitions have errors: there is nothing new in any of them."""

_THROTTLE_TIME_MS = struct.Struct(">i")
_ERROR_AND_SESSION_ID = struct.Struct(">hi")
_NO_SESSION = 0
_NO_TOPICS = struct.pack(">i", 0)
_NO_TOPICS_AND_NO_TAGS = b"\x01\x00"


def nothing_fetched(version: int, correlation_id: int) -> bytes:
    """The answer, without its size."""
    answer = encode_response_header(ApiKey.FETCH, version, correlation_id)
    answer += _THROTTLE_TIME_MS.pack(0)
    if version >= FIRST_VERSION_WITH_ERROR:
        answer += _ERROR_AND_SESSION_ID.pack(NOT_LEADER_OR_FOLLOWER, _NO_SESSION)
    return answer + (_NO_TOPICS_AND_NO_TAGS if ApiKey.FETCH.is_flexible(version) else _NO_TOPICS)
