"""Folds lines into tables in this process."""

from collections.abc import Iterable, Iterator

from gateway.pipeline.fold.history import History, Order
from gateway.pipeline.fold.lines import Line, parse
from gateway.pipeline.fold.tables import ALL_ROWS, Key, Part, SourceLine, Tables, fold_lines
from tests.support.event_writer import GROUP


def folded(*texts: str) -> Tables:
    """All tables of all groups and processes in these lines."""
    made = Tables()
    for _key, tables in folds(*texts):
        _extend(made, tables)
    return made


def _extend(made: Tables, more: Tables) -> None:
    for name in ALL_ROWS:
        getattr(made, name).extend(getattr(more, name))


def folds(*texts: str) -> Iterator[tuple[Key | None, Tables]]:
    """The tables of each group; without a key those of a process, or of rejected lines."""
    return joined(
        fold_lines(
            SourceLine("file", f"line {number}", text) for number, text in enumerate(texts, 1)
        )
    )


def joined(parts: Iterable[Part]) -> Iterator[tuple[Key | None, Tables]]:
    """The tables of each group as a whole."""
    made = Tables()
    for part in parts:
        _extend(made, part.tables)
        if part.is_last:
            yield part.key, made
            made = Tables()


def history_of(*texts: str) -> History:
    """The history of one group."""
    order = Order()
    return History("", GROUP, list(order.take(placed(*texts))), order.forced())


def placed(*texts: str) -> list[Line]:
    """The lines that have a place in a sequence."""
    return [line for line, _problem in map(parse, texts) if line is not None]
