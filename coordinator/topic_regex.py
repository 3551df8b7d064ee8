"""Regular expressions over topic names, as KIP-848 wants them: RE2, and the complete name
(rule 3.13).

RE2 takes time in proportion to the name, whatever the pattern. A broker uses RE2J, which knows the
same syntax. Must not know groups, or where the names come from.
"""

from collections.abc import Collection
from typing import Protocol

import re2

from coordinator.errors import GroupError
from kafka_codecs.error_codes import ErrorCode

REGEX_LENGTH_MAX = 4_096
"""Characters; clients join several patterns into one."""

REGEX_BYTES_MAX = 1024 * 1024
"""Memory for one compiled pattern, which bounds repetitions in it."""


class CompiledRegex(Protocol):
    """A pattern, ready for use."""

    def fullmatch(self, text: bytes) -> object | None:
        """Something, if the complete text matches."""


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
    """The topics that each of the regular expressions matches, which were checked before.

    It takes about a microsecond for each pair of the two: not for a thread that has other duties.
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
    """RE2 tells it in bytes."""
    why = broken.args[0] if broken.args else b""
    return why.decode(errors="replace") if isinstance(why, bytes) else str(why)
