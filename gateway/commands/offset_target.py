"""Where `groupferry offsets reset` puts the offsets of a group."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_codecs.list_offsets import EARLIEST, LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where offsets are reset to: one of the three."""

    timestamp_ms: int | None = None
    """A time, EARLIEST or LATEST."""
    offset: int | None = None
    shift: int | None = None
    """Records further than the committed offset; backwards if negative."""


def parse_target(text: str) -> Target:
    """Parse `earliest`, `latest`, an offset, `+N`, `-N` or a time. Raises ValueError."""
    match text:
        case "earliest":
            return Target(timestamp_ms=EARLIEST)
        case "latest":
            return Target(timestamp_ms=LATEST)
        case _ if text[:1] in ("+", "-") and text[1:].isdigit():
            return Target(shift=int(text))
        case _ if text.isdigit():
            return Target(offset=int(text))
        case _:
            time = datetime.fromisoformat(text)
            aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
            return Target(timestamp_ms=round(aware.timestamp() * 1000))
