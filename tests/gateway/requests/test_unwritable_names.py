"""Names that cannot be encoded."""

from dataclasses import fields
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from gateway.data_path.api_table import API_TABLE, ApiHandling
from gateway.requests.unwritable_names import refused_for_its_names
from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import decode_response_header
from kafka_codecs.offset_commit import OffsetCommitResponse
from kafka_codecs.unwritable import UNWRITABLE_FROM_BYTES
from tests.codecs.test_unwritable import grown
from tests.support.codecs import sample
from tests.support.commits import commit_of
from tests.support.gateway import whole_gateway
from tests.support.mock_cluster import running_mock_cluster
from tests.support.wire import open_wire, request_frame

BY_UNKNOWN_MEMBERS = {ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT}
PLACEHOLDER = "~" * UNWRITABLE_FROM_BYTES
WITHOUT_NAMES = {ApiKey.API_VERSIONS, ApiKey.LIST_CONFIG_RESOURCES}
"""The first is answered by the data path, whatever is in it."""
KEYS = [
    key
    for key, entry in API_TABLE.items()
    if entry.treatment in (ApiHandling.ANSWER, ApiHandling.INSPECT) and key not in WITHOUT_NAMES
]


def error_codes(answer: Any) -> set[int]:
    """All errors in an answer."""
    if isinstance(answer, tuple):
        return set().union(*map(error_codes, answer))
    if not isinstance(answer, Struct):
        return set()
    codes = {getattr(answer, "error_code", ErrorCode.NONE)}
    return codes.union(*(error_codes(getattr(answer, field.name)) for field in fields(answer)))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_each_group_api_has_an_answer_that_can_be_written(key: ApiKey) -> None:
    """This holds in each version. The answer has an error for all that the request names."""
    expected = (
        ErrorCode.UNKNOWN_MEMBER_ID if key in BY_UNKNOWN_MEMBERS else ErrorCode.UNKNOWN_SERVER_ERROR
    )
    for version in APIS[key].versions:
        request: Any = grown(sample(APIS[key].request, version))
        answer = refused_for_its_names(request, version)
        read = decode(APIS[key].response, encode(answer, version), version)
        assert error_codes(read) - {ErrorCode.NONE} == {expected}


async def test_requests_with_and_without_such_names_share_a_connection() -> None:
    """Three commits that arrive together are answered one by one, and the log names the client."""
    text = b"\xff" * UNWRITABLE_FROM_BYTES
    offsets = {"numbers": {0: 1}}
    commits = (
        commit_of(offsets),
        commit_of(offsets, group_id=PLACEHOLDER),
        commit_of({PLACEHOLDER: {0: 1}}),
    )
    frames = [
        request_frame(ApiKey.OFFSET_COMMIT, 7, number, encode(commit, 7), "odd")
        for number, commit in enumerate(commits)
    ]
    with trio.fail_after(30):
        async with (
            running_mock_cluster(1) as upstream,
            whole_gateway(upstream.bootstrap, forward_patterns=("*",)) as gateway,
            open_wire(gateway.address) as wire,
        ):
            await upstream.create_topic("numbers", 1)
            with capture_logs() as lines:
                await wire.send(b"".join(frames).replace(PLACEHOLDER.encode(), text))
                codes = []
                for number in range(len(frames)):
                    correlation_id, at = decode_response_header(
                        ApiKey.OFFSET_COMMIT, 7, frame := await wire.frame()
                    )
                    assert correlation_id == number
                    answer = decode(OffsetCommitResponse, frame[at:], 7)
                    codes.append(answer.topics[0].partitions[0].error_code)
    unwritable = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes == [ErrorCode.NONE, unwritable, unwritable]
    assert {
        (line["api"], line["client_id"])
        for line in lines
        if line["event"] == "unwritable_name_refused"
    } == {("OFFSET_COMMIT", "odd")}
