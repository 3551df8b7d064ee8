"""Folds lines into tables in this process."""

from collections.abc import Iterable

from gateway.pipeline.fold.folding import SourceLine, fold_lines
from gateway.pipeline.fold.rows import ALL_ROWS, Tables
from gateway.pipeline.report.summary import Summary


def fold_texts(*texts: str) -> Tables:
    """All tables of all groups and processes in these lines."""
    return join_rows(fold_lines(sources(texts)))


def summary_of(*texts: str, top: int = 1) -> Summary:
    """The summary of these lines."""
    summary = Summary(top=top)
    for tables in fold_lines(sources(texts)):
        summary.add(tables)
    return summary


def sources(texts: Iterable[str]) -> list[SourceLine]:
    """Lines of one file."""
    return [SourceLine("file", f"line {number}", text) for number, text in enumerate(texts, 1)]


def join_rows(parts: Iterable[Tables]) -> Tables:
    """The rows of all parts."""
    made = Tables()
    for part in parts:
        for name in ALL_ROWS:
            getattr(made, name).extend(getattr(part, name))
    return made
