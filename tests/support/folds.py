"""Folds lines into tables in this process."""

from collections.abc import Iterable

from gateway.events.gateway_events import GatewayStarted
from gateway.pipeline.fold import Tables, fold_group, fold_process
from gateway.pipeline.history import History, Numbered, clusters, history
from gateway.pipeline.parsing import content_of, parse
from gateway.pipeline.tables.catalog import ALL_ROWS
from gateway.pipeline.tables.rejected import rejected
from gateway.pipeline.tables.sequences import Number, SequenceKey, key_of, number_of
from tests.support.scribe import GROUP


def folded(*texts: str) -> Tables:
    """All tables of all groups and processes in these lines."""
    made = Tables()
    for _key, tables in folds(*texts):
        for name in ALL_ROWS:
            getattr(made, name).extend(getattr(tables, name))
    return made


def folds(*texts: str) -> Iterable[tuple[tuple[str, str] | None, Tables]]:
    """The tables of each group; without a key those of a process, or of rejected lines."""
    lines = _readable(texts)
    cluster_of = clusters(
        (each.line, each.line.fields)
        for each in lines
        if isinstance(each.line.fields, GatewayStarted)
    )
    groups: dict[tuple[str, str], list[Numbered]] = {}
    processes: dict[SequenceKey, list[Number]] = {}
    for each in lines:
        cluster_id = cluster_of.get(each.line.gateway_id, "")
        if each.line.group_id is not None:
            groups.setdefault((cluster_id, each.line.group_id), []).append(each)
        if each.line.is_beside:
            processes.setdefault(key_of(each), []).append(number_of(each))
    for group, its_lines in groups.items():
        yield group, fold_group(*group, its_lines)
    for key, numbers in processes.items():
        yield None, fold_process(cluster_of.get(key.gateway_id, ""), key, numbers)
    yield (
        None,
        Tables(
            rejected=[
                rejected("file", f"line {number}", text, line, problem)
                for number, text in enumerate(texts, 1)
                for line, problem in (parse(text),)
                if problem is not None
            ]
        ),
    )


def told_history(*texts: str) -> History:
    """The history of one group."""
    return history("", GROUP, _readable(texts))


def _readable(texts: Iterable[str]) -> list[Numbered]:
    found = ((parse(text)[0], content_of(text)) for text in texts)
    return [Numbered(line, content) for line, content in found if line is not None]
