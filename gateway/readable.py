"""Values as people read them in one line of a terminal, whoever they came from.

Client and group ids are chosen by strangers: what one of them holds must not move the cursor, hide
a name or turn the direction of a line. Whatever reaches a terminal goes through `escaped`.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffc\ufff0-\ufff8\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
"""Control characters, marks of direction, and what has no width."""

_PLAIN = re.compile(r"[\w./:@+>-]+", re.ASCII)


def escaped(line: str) -> str:
    """One line with an escape, as JSON has it, for each character that steers a terminal or that
    nobody can see. JSON stays the same JSON."""
    return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), line)


def shown(value: Any) -> str:
    """As it is if it is plain; otherwise as JSON, so that no client id steers the terminal."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return escaped(json.dumps(value, separators=(",", ":")))


def moment(at_ms: int) -> str:
    """In UTC, from milliseconds since 1970; the number itself if no calendar has it."""
    try:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms}ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}Z"
