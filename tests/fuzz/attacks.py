"""What a hostile client sends on one connection, as a function of a seed and a number.

Requests of real clients (`tests/captures/`) in every version that can carry them, a sample of each
other api that the gateway reads, and random bodies for those that it only relays. Most stay as they
are, so that later ones meet groups with members; the others are mutated. An unreadable mutated
request ends its connection, so it comes last: a connection costs as much as ten requests.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from random import Random

from gateway.data_path.api_table import API_TABLE
from kafka_codecs import WireError, decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import decode_request_header
from kafka_codecs.sasl_authenticate import SaslAuthenticateRequest
from kafka_codecs.sasl_handshake import SaslHandshakeRequest
from tests.support import captures
from tests.support.codecs import sample
from tests.support.wire import SIZE, make_frame, produce_body, request_frame

FRAMES_MAX = 256
"""Frames of one connection."""
FRAMES_BEFORE_MAX = 8
"""Frames of one connection that has not authenticated: the first wrong one ends it."""
MUTATED = 0.2
"""The part of the frames that are mutated."""
ENDED = 0.8
"""The part of the connections whose last frame is mutated until it is unreadable."""
TRIES_MAX = 8
"""Mutations of one frame until one is as wanted."""
GROUPS, GROUPS_OF_ONE = 16, 4
"""The groups that the attacks name, and those of one connection. The gateway asks the cluster about
each group of each connection."""
REPEATED = 0.75
"""The part of the frames that have the api and the group of the frame before, as those of a client
that pipelines."""
USER, PASSWORD = "mallory", "fuzz-secret-31c7"

_CAPTURED_GROUP = b"captured"
_GROUPS = tuple(b"fuzz-%03d" % number for number in range(GROUPS))
"""Group names as long as the captured one."""
_KEYS = tuple(API_TABLE)
_KEYS_IN_SESSION = tuple(
    key for key in _KEYS if key not in {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)
"""Another exchange usually ends the session, so it comes last."""
_EDGES = (-(2**31), -2, -1, 0, 1, 127, 128, 255, 2**15 - 1, 2**16, 2**24, 2**31 - 1)
_KEY_VERSION_ID = struct.Struct(">hhi")
_HEADER_BYTES = _KEY_VERSION_ID.size

Template = tuple[ApiKey, int, bytes]
Mutation = Callable[[Random, bytearray], None]


class Stage(Enum):
    """How far the client is in its authentication when it begins to send garbage."""

    OPEN = auto()
    """The cluster wants none."""
    BEFORE = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """The bytes of one connection."""

    opening: tuple[bytes, ...] = ()
    """The frames of a correct authentication."""
    frames: tuple[bytes, ...]


def attack_of(seed: int, number: int, *, authenticates: bool) -> Attack:
    """The attack with this number."""
    random = Random(f"{seed}/{number}")
    stage = Stage.OPEN
    if authenticates:
        stage = Stage.BEFORE if random.random() < 0.2 else Stage.AFTER
    if stage is Stage.BEFORE:
        count = random.randint(1, FRAMES_BEFORE_MAX)
        templates = [random.choice(_of_authentication()) for _ in range(count)]
    else:
        count = random.randint(1, FRAMES_MAX)
        keys = [*_in_session(random, count - 1), random.choice(_KEYS)]
        templates = [random.choice(corpus()[key]) for key in keys]
    wholes = tuple(_wholes(random, templates))
    frames = [_frame(random, whole) for whole in wholes]
    if random.random() < ENDED:
        frames[-1] = _last_frame(random, wholes[-1])
    return Attack(opening=_login() if stage is Stage.AFTER else (), frames=tuple(frames))


def _in_session(random: Random, count: int) -> Iterator[ApiKey]:
    key = random.choice(_KEYS_IN_SESSION)
    for _ in range(count):
        if random.random() >= REPEATED:
            key = random.choice(_KEYS_IN_SESSION)
        yield key


@cache
def corpus() -> Mapping[ApiKey, tuple[Template, ...]]:
    """Bodies of every api of the table in every version, at least one each."""
    captured: dict[ApiKey, list[tuple[int, bytes]]] = {}
    for path in sorted(captures.FOLDER.glob("*/*.txt")):
        for frame in captures.read(path):
            if frame.kind == "request":
                captured.setdefault(frame.api_key, []).append((frame.api_version, frame.body))
    return {
        key: tuple(
            (key, version, body)
            for version in range(entry.min_version, entry.max_version + 1)
            for body in _bodies(key, version, captured.get(key, ()))
        )
        for key, entry in API_TABLE.items()
    }


def _bodies(
    key: ApiKey, version: int, captured: list[tuple[int, bytes]] | tuple[()]
) -> Iterator[bytes]:
    kind = _request_of(key)
    if kind is None:
        yield b""
        return
    yield encode(sample(kind, version), version)
    bodies = set()
    for captured_version, body in captured:
        try:
            bodies.add(encode(decode(kind, body, captured_version), version))
        except WireError:  # this version cannot carry it
            continue
    yield from sorted(bodies)


def _request_of(key: ApiKey) -> type[Struct] | None:
    """None for what the gateway only relays."""
    return APIS[key].request if key in APIS else None


@cache
def _of_authentication() -> tuple[Template, ...]:
    """What a client may send before the cluster knows it, and a few requests that it may not."""
    keys = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    allowed = [template for key in keys for template in corpus()[key]]
    attempts = [
        (ApiKey.SASL_HANDSHAKE, version, encode(SaslHandshakeRequest(mechanism=name), version))
        for name in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")
        for version in (0, 1)
    ]
    refused = [corpus()[key][0] for key in _KEYS]
    return (*allowed, *attempts, *attempts, *refused)


@cache
def _login() -> tuple[bytes, ...]:
    token = f"\0{USER}\0{PASSWORD}".encode()
    messages = (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token))
    keys = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    return tuple(
        request_frame(key, 1, 0, encode(message, 1))
        for key, message in zip(keys, messages, strict=True)
    )


def _frame(random: Random, whole: bytes) -> bytes:
    """A frame that can be read; more may follow it."""
    if random.random() >= MUTATED:
        return make_frame(whole)
    for _ in range(TRIES_MAX):
        if is_readable(mutated := _mutate(random, whole)):
            return make_frame(mutated)
    return make_frame(whole)


def _last_frame(random: Random, whole: bytes) -> bytes:
    """A frame that cannot be read, unless its mutations always can."""
    mutated = whole
    for _ in range(TRIES_MAX):
        if not is_readable(mutated := _mutate(random, whole)):
            break
    size = len(mutated)
    if random.random() < 0.15:
        size = random.choice((*_EDGES, size - 1, size + 1))
    return SIZE.pack(size) + mutated


def _wholes(random: Random, templates: Iterable[Template]) -> Iterator[bytes]:
    groups = random.sample(_GROUPS, GROUPS_OF_ONE)
    group, last = groups[0], None
    for correlation_id, (key, version, template) in enumerate(templates, start=1):
        if key is not last:
            group, last = random.choice(groups), key
        body = template.replace(_CAPTURED_GROUP, group)
        if _request_of(key) is None:
            body = random.randbytes(random.randrange(60))
        if key is ApiKey.PRODUCE:
            body = produce_body(version, -1, body)
        start = _KEY_VERSION_ID.pack(key, version, correlation_id)
        yield start + _end_of_header(key, version) + body


@cache
def _end_of_header(key: ApiKey, version: int) -> bytes:
    return request_frame(key, version, 0, b"")[SIZE.size + _KEY_VERSION_ID.size :]


def _mutate(random: Random, whole: bytes) -> bytes:
    frame = bytearray(whole)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_MUTATIONS)(random, frame)
    return bytes(frame)


def is_readable(frame: bytes) -> bool:
    """Whether the gateway has no reason to close the connection because of this frame."""
    try:
        header, offset = decode_request_header(frame)
        entry = API_TABLE[ApiKey(header.api_key)]
        if not 0 <= header.api_version <= entry.max_version:
            return False
        if header.api_key == ApiKey.PRODUCE:  # which the gateway reads as bytes
            return False
        if (kind := _request_of(ApiKey(header.api_key))) is not None:
            decode(kind, frame[offset:], header.api_version)
    except (WireError, ValueError, KeyError):
        return False
    return True


def _flip_a_bit(random: Random, frame: bytearray) -> None:
    if frame:
        frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)


def _flip_a_bit_of_the_body(random: Random, frame: bytearray) -> None:
    if len(frame) > _HEADER_BYTES:
        frame[random.randrange(_HEADER_BYTES, len(frame))] ^= 1 << random.randrange(8)


def _set_a_byte(random: Random, frame: bytearray) -> None:
    if len(frame) > _HEADER_BYTES:
        frame[random.randrange(_HEADER_BYTES, len(frame))] = random.choice((0, 1, 127, 128, 255))


def _set_a_number(random: Random, frame: bytearray) -> None:
    """Lengths, epochs and times are numbers of four bytes."""
    if len(frame) >= _HEADER_BYTES + 4:
        at = random.randrange(_HEADER_BYTES, len(frame) - 3)
        frame[at : at + 4] = struct.pack(">i", random.choice(_EDGES))


def _cut(random: Random, frame: bytearray) -> None:
    del frame[random.randrange(len(frame) + 1) :]


def _lengthen(random: Random, frame: bytearray) -> None:
    frame += random.randbytes(random.choice((1, 4, 50, 2_000)))


def _repeat_a_part(random: Random, frame: bytearray) -> None:
    if len(frame) > _HEADER_BYTES:
        start = random.randrange(_HEADER_BYTES, len(frame))
        part = frame[start : start + random.randrange(1, 40)]
        frame[start:start] = part * random.choice((1, 2, 50))


def _splice_another(random: Random, frame: bytearray) -> None:
    _, _, body = random.choice(corpus()[random.choice(_KEYS)])
    at = random.randrange(_HEADER_BYTES, len(frame) + 1) if len(frame) > _HEADER_BYTES else 0
    frame[at:] = body[random.randrange(len(body) + 1) :]


def _change_the_version(random: Random, frame: bytearray) -> None:
    if len(frame) >= 4:
        frame[2:4] = struct.pack(">h", random.choice((-1, *range(16), 99)))


def _change_the_api(random: Random, frame: bytearray) -> None:
    if len(frame) >= 2:
        frame[0:2] = struct.pack(">h", random.choice((*_KEYS, -1, 4, 78, 1000)))


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip_a_bit, _flip_a_bit_of_the_body, _flip_a_bit_of_the_body),
    *(_set_a_byte, _set_a_byte, _set_a_number, _set_a_number, _cut, _lengthen),
    *(_repeat_a_part, _splice_another, _change_the_version, _change_the_api),
)
