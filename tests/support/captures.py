"""Capture files: the bytes of real clients as commented hex, one file per client, api and version.

A file has comments (`#`), and a line `== request` or `== answer` before each frame. Frames exclude
their size.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from kafka_codecs import WireError, decode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import decode_request_header, decode_response_header
from tests.support.codecs import octets

FOLDER = Path(__file__).parent.parent / "captures"
BYTES_PER_LINE = 16
EMBEDDING = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""The apis with bytes of the consumer protocol, which each client writes in its own way."""
OWN_BYTES = (*EMBEDDING, ApiKey.API_VERSIONS)
"""The apis in which each client has bytes of its own: those, and its name and version."""

_MARK = "== "
_CORRELATION_ID = slice(4, 8)

Kind = Literal["request", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame, without its size. An answer has the version of its request."""

    kind: Kind
    api_key: ApiKey
    api_version: int
    data: bytes

    @property
    def body(self) -> bytes:
        """The bytes after the header."""
        if self.kind == "request":
            return self.data[decode_request_header(self.data)[1] :]
        body_start = decode_response_header(self.api_key, self.api_version, self.data)[1]
        return self.data[body_start:]


def read(path: Path) -> list[Frame]:
    api, _, version = path.stem.rpartition("_v")
    frames: list[Frame] = []
    for part in path.read_text().split(f"\n{_MARK}")[1:]:
        kind, _, text = part.partition("\n")
        assert kind in ("request", "answer")
        frames.append(
            Frame(
                kind="request" if kind == "request" else "answer",
                api_key=ApiKey[api.upper()],
                api_version=int(version),
                data=octets(text),
            )
        )
    return frames


def write(folder: Path, about: Sequence[str], frames: Iterable[Frame]) -> None:
    """Write the files of one client, replacing the old ones. Each begins with the comment `about`.
    A frame is left out if one of its shape is there, from this client or another."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    seen = {_shape_of(frame) for path in FOLDER.glob("*/*.txt") for frame in read(path)}
    files: dict[tuple[ApiKey, int], list[str]] = {}
    for frame in frames:
        shape = _shape_of(frame)
        has_own_bytes = frame.api_key in OWN_BYTES and (shape, folder) not in seen
        if shape in seen and not has_own_bytes:
            continue
        seen |= {shape, (shape, folder)}
        lines = files.setdefault((frame.api_key, frame.api_version), [])
        lines += ["", f"{_MARK}{frame.kind}", *_hex(frame)]
    for (api_key, version), lines in files.items():
        text = "\n".join([*(f"# {line}" for line in about), *lines])
        (folder / f"{api_key.name.lower()}_v{version}.txt").write_text(f"{text}\n")


def message_of(frame: Frame) -> type[Struct]:
    """The message in a frame."""
    api = APIS[frame.api_key]
    message_type = api.request if frame.kind == "request" else api.response
    assert message_type is not None
    return message_type


def _shape_of(frame: Frame) -> object:
    """What a codec may treat differently in a frame."""
    header: object = None
    if frame.kind == "request":
        decoded, _ = decode_request_header(frame.data)
        header = (decoded.client_id is None, decoded.unknown_tags)
    body: object = None
    with contextlib.suppress(WireError):  # of an answer that is malformed
        body = _shape(decode(message_of(frame), frame.body, frame.api_version, trailing_ok=True))
    return frame.kind, frame.api_key, frame.api_version, header, body


def _shape(value: object) -> object:
    """Nulls, lengths and signs."""
    match value:
        case Struct():
            return tuple(_shape(getattr(value, field.name)) for field in fields(value))
        case tuple():
            return frozenset(map(_shape, value))
        case bytes():
            return len(value)
        case str():
            return bool(value)
        case int():
            return (value > 0) - (value < 0)
        case _:
            return value is None


def _hex(frame: Frame) -> Iterator[str]:
    """The header with its meaning, then the body with its text."""
    header, body = frame.data[: len(frame.data) - len(frame.body)], frame.body
    if frame.kind == "request":
        client_id = decode_request_header(frame.data)[0].client_id
        yield f"{header[:4].hex():<10} # {frame.api_key.name} v{frame.api_version}"
        yield f"{header[_CORRELATION_ID].hex():<10} # correlation id"
        yield f"{header[8:].hex(' ', 4)} # client id {client_id}"
    else:
        yield f"{header.hex():<10} # correlation id"
    for start in range(0, len(body), BYTES_PER_LINE):
        line = body[start : start + BYTES_PER_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        yield f"{line.hex(' ', -4):<35} # {text}"
