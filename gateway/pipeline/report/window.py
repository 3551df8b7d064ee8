"""The span of time that a plot shows: everything, or the important part if that is much shorter."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gateway.pipeline.report.model import Migration

Span: TypeAlias = tuple[int, int]
"""From and to, in milliseconds since 1970 (UTC)."""

_MARGIN = 0.1
"""The margin before and after the important part, as a share of its length."""
_MARGIN_MS_MIN = 1_000
_SHARE_MAX = 0.5
"""The largest share of the whole for which only the important part is shown."""


def around(matters: Iterable[Span], whole: Span) -> Span:
    """From shortly before the first of these spans to shortly after the last."""
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
    """The spans of migrations, and the moments of findings."""
    for each in migrations:
        yield each.from_ms, whole[1] if each.to_ms is None else each.to_ms
    for at_ms in findings_ms:
        yield at_ms, at_ms
