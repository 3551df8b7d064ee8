"""What the parent of a fleet and its processes say to each other: one packet for each word."""

import json
import socket
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

WORD_BYTES_MAX = 16 * 1024
"""A table of owners has a few bytes for each shard."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The process lives."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The process serves clients."""


@dataclass(frozen=True, slots=True)
class AskDrain:
    """An operator wants the whole fleet to drain."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The process has closed this shard, and nothing of it is on its way any more."""

    shard: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The process serves this shard that it was told to take."""

    shard: int


@dataclass(frozen=True, slots=True)
class NotOpened:
    """The process could not open this shard that it was told to take."""

    shard: int


@dataclass(frozen=True, slots=True)
class AskRestart:
    """An operator wants these slots to be restarted, one after another."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogClaimed:
    """The first process has claimed the state log in the cluster for this fleet."""

    log_id: str
    run_id: int
    """The run of the first process, greater than any before. All later ones of the fleet count on
    from it."""


@dataclass(frozen=True, slots=True)
class LogLost:
    """The state log or the name in the fleet is another gateway's, and the process ends."""

    reason: str
    """One line that says what to do."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Drain, and end; told twice, end without."""


@dataclass(frozen=True, slots=True)
class Reload:
    """Read the settings again."""


@dataclass(frozen=True, slots=True)
class StopAccepting:
    """Accept no further clients at the ports that all processes share."""


@dataclass(frozen=True, slots=True)
class OwnerTable:
    """The slot that has each shard from now on. Give up those of other slots. A process of a fleet
    that runs on several machines sends it to its parent, with NO_SLOT for shards that are
    elsewhere."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """Open these shards, which no process has any more."""

    shards: tuple[int, ...]
    run_id: int
    """Greater than that of any process that has had them."""


@dataclass(frozen=True, slots=True)
class Lose:
    """Give up a shard whose writer the cluster has fenced, because another gateway has it."""

    shard: int
    reason: str


Word: TypeAlias = (
    Beat
    | Serving
    | AskDrain
    | GaveUp
    | Opened
    | NotOpened
    | AskRestart
    | LogClaimed
    | LogLost
    | Drain
    | Reload
    | StopAccepting
    | OwnerTable
    | Take
)
_WORDS: dict[str, type[Any]] = {word.__name__: word for word in Word.__args__}


def make_link() -> tuple[socket.socket, socket.socket]:
    """The two ends of a link. A packet arrives whole, or not at all."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def encode(word: Word) -> bytes:
    """The packet of a word."""
    return json.dumps({"word": type(word).__name__, **asdict(word)}).encode()


def decode(packet: bytes) -> Word:
    """The word of a packet."""
    fields = json.loads(packet)
    kind = _WORDS[fields.pop("word")]
    word: Word = kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
        }
    )
    return word
