"""The codecs read all captured requests of real clients, and answers of librdkafka's mock cluster.

An encoder must not be the only test of its own decoder. `capture.py` made the files.
"""

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support import captures
from tests.support.captures import Frame, message_of
from tests.support.codecs_kio import kio_read, kio_write, plain

CLIENTS = {
    *("librdkafka-classic", "librdkafka-cooperative", "librdkafka-consumer", "librdkafka-admin"),
    *("kafka-python", "kafka-python-cooperative", "kafka-python-admin", "aiokafka", "kafkajs"),
    *("platformatic-classic", "platformatic-consumer"),
    *("java-classic", "java-consumer"),
}
FILES = sorted(captures.FOLDER.glob("*/*.txt"))
# Bugs of the mock cluster.
TRAILING_BYTES = {(ApiKey.METADATA, version): b"\0" for version in range(9, 14)}
MALFORMED = {(ApiKey.API_VERSIONS, 3), (ApiKey.LEAVE_GROUP, 3)}


def every_frame(*api_keys: ApiKey) -> pytest.MarkDecorator:
    """Each captured frame of these APIs, or of all."""
    return pytest.mark.parametrize(
        "frame",
        [
            pytest.param(frame, id=f"{path.parent.name}-{path.stem}-{number}-{frame.kind}")
            for path in FILES
            for number, frame in enumerate(captures.read(path), start=1)
            if not api_keys or frame.api_key in api_keys
        ],
    )


def test_every_client_was_captured() -> None:
    """Each file names the client, its version, and the command."""
    assert {path.parent.name for path in FILES} == CLIENTS
    for path in FILES:
        client, command = path.read_text().splitlines()[:2]
        assert any(character.isdigit() for character in client)
        assert command == f"# made by: python -m tests.captures.capture {path.parent.name}"


@every_frame()
def test_a_captured_frame_survives_a_round_trip(frame: Frame) -> None:
    """Header and body give the same bytes, and kio reads the same content."""
    key, version, data = frame.api_key, frame.api_version, frame.data
    trailing = b""
    if frame.kind == "request":
        header, start = decode_request_header(data)
        assert (header.api_key, header.api_version) == (key, version)
        assert encode_request_header(header) == data[:start]
    else:
        correlation_id, start = decode_response_header(key, version, data)
        assert encode_response_header(key, version, correlation_id) == data[:start]
        trailing = TRAILING_BYTES.get((key, version), b"")
    message_type, body = message_of(frame), data[start:].removesuffix(trailing)
    if frame.kind == "answer" and (key, version) in MALFORMED:
        with pytest.raises(WireError):
            decode(message_type, body, version)
        return
    message = decode(message_type, body, version)
    assert encode(message, version) == body
    entity = kio_read(message_type, body, version)
    assert plain(entity) == plain(message, version)
    assert kio_write(entity) == body


@every_frame()
def test_a_truncated_frame_is_refused(frame: Frame) -> None:
    """A frame that is cut at any byte of header or body raises WireError."""
    key = (frame.api_key, frame.api_version)
    if frame.kind == "answer" and (key in MALFORMED or key in TRAILING_BYTES):
        return
    for end in range(len(frame.data)):
        with pytest.raises(WireError):
            read_whole(frame, frame.data[:end])


def read_whole(frame: Frame, data: bytes) -> Struct:
    """Decode header and body of a truncated frame. Raises WireError."""
    key, version = frame.api_key, frame.api_version
    if frame.kind == "request":
        _, start = decode_request_header(data)
    else:
        _, start = decode_response_header(key, version, data)
    return decode(message_of(frame), data[start:], version)


@every_frame(*captures.EMBEDDING)
def test_the_embedded_consumer_protocol_is_decoded(frame: Frame) -> None:
    """Subscriptions and assignments in JoinGroup and SyncGroup have no bytes left over."""
    for data in subscriptions_in(frame):
        spoken, subscription = decode_subscription(data)
        assert subscription.topics == ("numbers",)
        assert encode_subscription(subscription, spoken) == data
    for data in assignments_in(frame):
        spoken, assignment = decode_assignment(data)
        assert {topic.topic for topic in assignment.assigned_partitions} <= {"numbers"}
        assert encode_assignment(assignment, spoken) == data


@pytest.mark.parametrize(
    ("client", "version", "user_data", "names_owned"),
    [
        ("librdkafka-classic", 3, b"", False),
        ("librdkafka-cooperative", 3, b"", True),
        ("kafka-python", 0, b"", False),
        ("kafka-python-cooperative", 1, b"", True),
        ("aiokafka", 0, b"", False),
        ("kafkajs", 0, b"", False),
        ("java-classic", 3, b"\xff\xff\xff\xff", True),
        ("platformatic-classic", 1, None, False),
    ],
)
def test_each_client_has_its_own_form_of_subscription(
    client: str, version: int, user_data: bytes | None, names_owned: bool
) -> None:
    """These are the version, the user data of its first join, and whether a later one states owned
    partitions."""
    subscriptions = [
        decode_subscription(data)
        for path in captures.FOLDER.glob(f"{client}/join_group_v*.txt")
        for frame in captures.read(path)
        if frame.kind == "request"
        for data in subscriptions_in(frame)
    ]
    assert {spoken for spoken, _ in subscriptions} == {version}
    assert subscriptions[0][1].user_data == user_data
    assert any(subscription.owned_partitions for _, subscription in subscriptions) == names_owned


def subscriptions_in(frame: Frame) -> list[bytes]:
    """Every subscription in a frame."""
    match decode(message_of(frame), frame.body, frame.api_version):
        case JoinGroupRequest(protocols=protocols):
            return [protocol.metadata for protocol in protocols]
        case JoinGroupResponse(members=members):
            return [member.metadata for member in members]
        case _:
            return []


def assignments_in(frame: Frame) -> list[bytes]:
    """Every assignment in a frame."""
    match decode(message_of(frame), frame.body, frame.api_version):
        case SyncGroupRequest(assignments=assignments):
            return [member.assignment for member in assignments]
        case SyncGroupResponse(assignment=assignment):
            return [assignment] if assignment else []
        case _:
            return []
