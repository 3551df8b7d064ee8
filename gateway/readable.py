"""Values as people read them in one line of a terminal, whoever they came from."""

import json
import re
from datetime import UTC, datetime
from typing import Any

_PLAIN = re.compile(r"[\w./:@+>-]+", re.ASCII)


def shown(value: Any) -> str:
    """As it is if it is plain; otherwise as JSON, so that no client id steers the terminal."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, separators=(",", ":"))


def moment(at_ms: int) -> str:
    """In UTC, from milliseconds since 1970; the number itself if no calendar has it."""
    try:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms}ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}Z"
