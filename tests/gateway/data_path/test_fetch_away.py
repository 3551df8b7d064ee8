"""The answer to a Fetch whose broker is away, as another codec library reads it."""

from importlib import import_module

import pytest
from kio.serial import entity_reader

from gateway.data_path.fetch_away import FIRST_VERSION_WITH_ERROR, nothing_fetched
from gateway.data_path.treatments import TREATMENTS
from kafka_codecs.apis import ApiKey
from kafka_codecs.header import decode_response_header

OFFERED = TREATMENTS[ApiKey.FETCH]


@pytest.mark.parametrize("version", range(OFFERED.min_version, OFFERED.max_version + 1))
def test_nothing_is_fetched_and_no_session_begins(version: int) -> None:
    """In every version that is offered."""
    frame = nothing_fetched(version, correlation_id=7)
    correlation_id, offset = decode_response_header(ApiKey.FETCH, version, frame)
    read = entity_reader(
        import_module(f"kio.schema.fetch.v{version}.response").FetchResponse,
    )
    answer, size = read(frame[offset:], 0)
    assert (correlation_id, size) == (7, len(frame) - offset)
    assert answer.responses == ()
    if version >= FIRST_VERSION_WITH_ERROR:
        assert answer.error_code.name == "not_leader_or_follower"
        assert answer.session_id == 0
