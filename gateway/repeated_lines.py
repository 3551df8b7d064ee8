"""Counts log lines that repeat themselves, so that no client, broker or group can flood the log.

A condition has one line when it begins, one a minute with the number of further occurrences, and
one when it ends. Lines about a client are one condition for each kind and address. Other lines are
one condition if they differ only in what they concern, such as the group: while a coordinator
loads, a thousand groups have one condition.

Every line of the process passes through here, so no call site has to remember to limit itself.
"""

import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gateway.events.catalog import EVENTS

INFO_LINES_MAX, EVENT_LINES_MAX = 1_000, 100
"""Lines of one kind and address that are written in an interval, on level info, and about events
that are warnings: they describe the life of groups, and each is about something else. On level
debug all are written."""
COUNTED_KINDS = frozenset({"request_refused"})
"""Lines on level info that a client can cause with each request. They are conditions, too."""

INTERVAL_S = 60.0
"""The interval between two lines about one condition."""
CONDITIONS_MAX = 1_000
"""Conditions counted apart. Beyond that, those of one kind are counted together."""
CONDITIONS_OF_CLIENTS_MAX = 900
"""Conditions of clients counted apart: many addresses leave room for what is wrong with the cluster
or the gateway."""
CONDITIONS_PER_KIND_MAX = 20
"""Conditions of one kind and address. Further ones are counted together: reasons may vary, and an
address has as many conditions as there are kinds and error codes."""
VALUE_CHARS_MAX = 300
"""A longer value is cut in the lines with a count. Clients choose names of 32 KiB."""

OTHERS = "(others)"
"""Stands for the client address where several are counted together."""

_CONCERNED = frozenset(
    {
        *("event", "client_host", "client", "group_id", "member_id", "client_id", "connection_id"),
        *("user", "tls_subject", "given_by", "topic", "regex", "topics", "names", "groups"),
        *("offset", "generation", "group_epoch", "switches", "next_retry_s", "length_ms"),
        *("grace_ms", "held_ms", "lag_before", "lag_after", "client_lag", "exc_info"),
        *("records_per_s_before", "records_per_s_after", "bytes_per_s_before"),
        *("bytes_per_s_after", "fetches_per_s_before", "fetches_per_s_after"),
    }
)
"""Fields that name what a line concerns, or how much. They do not distinguish conditions."""
_IS_SUMMARY = "_is_summary"

_Line = structlog.typing.EventDict
_Key = tuple[str, str, int | str]

log = structlog.get_logger()


@dataclass(slots=True)
class _Condition:
    line: _Line
    """The latest occurrence."""
    level: str
    at_s: float
    """The beginning of its interval."""
    lines_max: int
    """How many lines of an interval are written."""
    lines: int = 1
    """How many have been."""
    more: int = 0
    """The occurrences in the interval without a line."""
    total: int = 1
    is_counted: bool = False
    """Whether any occurrence had no line."""


class RepeatedLines:
    """A processor of structlog. Call `sum_up` every few seconds."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()  # the state log's thread logs, too
        self._conditions: dict[_Key, _Condition] = {}
        self._per_kind: Counter[tuple[str, str]] = Counter()

    def __call__(self, _logger: object, _method: str, line: _Line) -> _Line:
        """The line, if it is the first about its condition. Raises DropEvent for any other."""
        level = line.get("level", "")
        if line.pop(_IS_SUMMARY, False) or level == "debug":
            return line
        lines_max = _lines_max(line["event"], level)
        with self._lock:
            key = self._key(line, _cause(line) if lines_max == 1 else "news")
            condition = self._conditions.get(key)
            if condition is None:
                line_now = _shorten(line)
                self._conditions[key] = _Condition(line_now, level, self._now_s(), lines_max)
                self._per_kind[key[:2]] += 1
                return line
            condition.total += 1
            if condition.lines < condition.lines_max:
                condition.lines += 1
                return line
            condition.more += 1
            condition.is_counted = True
            condition.line = _shorten(line)
        raise structlog.DropEvent

    def sum_up(self, *, ends: bool = False) -> None:
        """Write the counts of finished intervals, and the ends of conditions. `ends`: the process
        ends, so write all counts."""
        now_s = self._now_s()
        summaries: list[tuple[str, _Line]] = []
        with self._lock:
            for key, condition in tuple(self._conditions.items()):
                if now_s - condition.at_s < INTERVAL_S and not ends:
                    continue
                if key[1] == OTHERS:
                    named = condition.line.keys() & {"client_host", "client"}
                    condition.line.update(dict.fromkeys(named, OTHERS))
                if condition.more:
                    summaries.append((condition.level, {**condition.line, "more": condition.more}))
                    condition.at_s, condition.more, condition.lines = now_s, 0, 1
                    continue
                if condition.is_counted:
                    over = {"is_over": True, "occurrences": condition.total}
                    summaries.append(("info", {**condition.line, **over}))
                del self._conditions[key]
                self._per_kind[key[:2]] -= 1
            self._per_kind += Counter()  # drops those that have none left
        for level, line in summaries:
            getattr(log, level)(**line, **{_IS_SUMMARY: True})

    def _key(self, line: _Line, cause: int | str) -> _Key:
        """The key of the condition; of several together if there is no room for another."""
        event = line["event"]
        client_host = str(line.get("client_host") or line.get("client") or "")[:VALUE_CHARS_MAX]
        key = (event, client_host, cause)
        if key in self._conditions:
            return key
        conditions_max = CONDITIONS_OF_CLIENTS_MAX if client_host else CONDITIONS_MAX
        if len(self._conditions) >= conditions_max:
            return (event, OTHERS, 0)
        if self._per_kind[event, client_host] >= CONDITIONS_PER_KIND_MAX:
            return (event, client_host, 0)
        return key


def _lines_max(event: str, level: str) -> int:
    """How many lines of one condition are written in an interval."""
    if event in COUNTED_KINDS:
        return 1
    if level == "info":
        return INFO_LINES_MAX
    return EVENT_LINES_MAX if event in EVENTS else 1


def _cause(line: _Line) -> int:
    """A key of fixed size that distinguishes conditions of one kind."""
    if line.get("client_host") or line.get("client"):
        return hash(line.get("error_code"))
    cause = [(name, repr(value)) for name, value in line.items() if name not in _CONCERNED]
    return hash((*cause, _place_of_bug(line.get("exc_info"))))


def _place_of_bug(exc_info: object) -> object:
    """The type of an exception, and the line that raised it."""
    error = sys.exception() if exc_info is True else exc_info
    if not isinstance(error, BaseException):
        return None
    raised = list(traceback.walk_tb(error.__traceback__))
    return type(error).__name__, raised[-1][1] if raised else 0


def _shorten(line: _Line) -> _Line:
    """A copy that takes little memory: without collections, and the traceback of a bug."""
    return {
        name: f"{value[:VALUE_CHARS_MAX]}…"
        if isinstance(value, str) and len(value) > VALUE_CHARS_MAX
        else value
        for name, value in line.items()
        if name not in ("level", "exc_info") and isinstance(value, str | int | float | None)
    }
