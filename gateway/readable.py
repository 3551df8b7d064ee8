"""Formats untrusted values as one line for a terminal.

Clients choose their own ids and group ids: they must not move the cursor, hide a name or reverse
the direction of a line. Everything that reaches a terminal goes through `escaped`.
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
"""Control characters, direction marks, and characters without a width."""

_PLAIN = re.compile(r"[\w./:@+>-]+", re.ASCII)


def escaped(line: str) -> str:
    """One line with JSON escapes in place of characters that control the terminal or are invisible.
    JSON stays equivalent JSON."""
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f"), line)


def shown(value: Any) -> str:
    """A plain string unchanged; any other value as escaped JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return escaped(json.dumps(value, separators=(",", ":")))


def moment(at_ms: int) -> str:
    """A time in milliseconds since 1970 as UTC; the number itself if it is outside the calendar."""
    try:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms}ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}Z"
