"""Bars that show on a terminal how far long work is; nothing if standard error is no terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LOOK_INTERVAL_S = 0.5


def new_progress(unit: str) -> Progress:
    """Bars on standard error, which go at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def spark_progress(tracker: Any) -> Iterator[None]:
    """A bar of the tasks of Spark's jobs within the block. `tracker` is Spark's status tracker, or
    null."""
    if tracker is None or not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(tracker, ended), daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _watch(tracker: Any, ended: threading.Event) -> None:
    with new_progress("tasks") as progress:
        bar = progress.add_task("report", total=None)
        stages: dict[int, tuple[int, int]] = {}
        while not ended.wait(_LOOK_INTERVAL_S):
            for stage_id in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    stages[stage_id] = stage.numCompletedTasks, stage.numTasks
            done = sum(completed for completed, _total in stages.values())
            total = sum(total for _completed, total in stages.values())
            progress.update(bar, completed=done, total=total or None)
