"""Regular expressions over topic names: RE2 syntax, matched against the complete name (rule 3.13).

RE2 takes time linear in the length of the name, whatever the pattern. Brokers use RE2J, which has
the same syntax.
"""

from collections.abc import Collection
from typing import Protocol

import re2

from coordinator.interface.errors import GroupError
from kafka_codecs.error_codes import ErrorCode

REGEX_LENGTH_MAX = 4_096
"""The limit in characters. Clients join several patterns into one."""

REGEX_BYTES_MAX = 1024 * 1024
"""The memory limit of one compiled pattern, which bounds its repetitions."""


class CompiledRegex(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: bytes) -> object | None:
        """A match object if the complete text matches, or None."""


def compile_regex(regex: str) -> CompiledRegex:
    """Raises GroupError INVALID_REGULAR_EXPRESSION with the reason."""
    if len(regex) > REGEX_LENGTH_MAX:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression is longer than {REGEX_LENGTH_MAX} characters",
        )
    options = re2.Options()
    options.max_mem = REGEX_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        compiled: CompiledRegex = re2.compile(regex, options)
    except re2.error as broken:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the regular expression {regex!r} is not valid: {_reason(broken)}",
        ) from broken
    return compiled


def match_topics(
    regexes: Collection[str], topic_names: Collection[str]
) -> dict[str, frozenset[str]]:
    """The topics that each regular expression matches. All expressions were checked before.

    Each pair of expression and topic takes about a microsecond, so this belongs in a worker thread.
    """
    by_bytes = {name.encode(): name for name in topic_names}
    matches = {}
    for regex in regexes:
        compiled = compile_regex(regex)
        matches[regex] = frozenset(
            name for encoded, name in by_bytes.items() if compiled.fullmatch(encoded)
        )
    return matches


def _reason(broken: Exception) -> str:
    """The message of an RE2 error, which has it in bytes."""
    reason = broken.args[0] if broken.args else b""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
