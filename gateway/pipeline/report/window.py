"""Which part of the time a plot shows: the whole, or where it matters if that is much less."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gateway.pipeline.report.model import Migration

Span: TypeAlias = tuple[int, int]
"""From and to, in milliseconds since 1970 (UTC)."""

_MARGIN = 0.1
"""Of what matters, shown before and after it."""
_MARGIN_MS_MIN = 1_000
_SHARE_MAX = 0.5
"""Of the whole; if what matters takes more of it, all is shown."""


def around(matters: Iterable[Span], whole: Span) -> Span:
    """From a bit before the first to a bit after the last; the whole if there is none."""
    spans: Sequence[Span] = sorted(matters)
    if not spans:
        return whole
    first, last = spans[0][0], max(to_ms for _, to_ms in spans)
    margin_ms = max(int((last - first) * _MARGIN), _MARGIN_MS_MIN)
    shown = max(first - margin_ms, whole[0]), min(last + margin_ms, whole[1])
    return shown if shown[1] - shown[0] < _SHARE_MAX * (whole[1] - whole[0]) else whole


def what_matters(
    migrations: Iterable[Migration], findings_ms: Iterable[int], whole: Span
) -> Iterable[Span]:
    """When a group was on its way, and where something was found."""
    for each in migrations:
        yield each.from_ms, whole[1] if each.to_ms is None else each.to_ms
    for at_ms in findings_ms:
        yield at_ms, at_ms
