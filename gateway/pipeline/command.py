"""`groupferry report`: turns events into tables, a page and a verdict, and prints the verdict.

Few lines are folded in this process, others on Spark, which is imported for them only. With
`--follow` this process takes in lines as they arrive, until a signal ends it.
"""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NoReturn

from gateway.loading import loading
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.rows import RunRow, Tables
from gateway.pipeline.folder import DATABASE, Folder, is_local_path, lock, open_folder
from gateway.pipeline.following import Following
from gateway.pipeline.quick_verdict import fold_here
from gateway.pipeline.report.page import REPORTS, GroupStory, Report, page, story
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import SafetyVerdict, judge
from gateway.pipeline.sources import Sources
from gateway.pipeline.tables import FilesMaker, empty_files, read_rows, write_files, write_run
from gateway.readable import escape

NUMBERS = "report.json"
PAGE = "report.html"


def run(
    sources: Sources,
    output: str,
    *,
    top: int,
    master: str | None,
    settings: Mapping[str, str],
) -> bool:
    """Make the report. Returns whether the verdict is safe. Raises PipelineError."""
    sources.require_without(output)
    is_plain = master is None and not settings and "PYSPARK_GATEWAY_PORT" not in os.environ
    with _until_signal(f"interrupted; {output} is as it was"):
        if is_plain and is_local_path(output) and sources.fit_here():
            folder = Folder(output)
            with lock(folder, follows=False):
                rows = fold_here(sources.inputs)
                verdict = renew(lambda new: make_here(rows, new, top), folder, sources.names)
        else:
            verdict, folder = _run_on_spark(sources, output, top, master, settings)
    _print(verdict, folder)
    return verdict.is_safe


def _run_on_spark(
    sources: Sources, output: str, top: int, master: str | None, settings: Mapping[str, str]
) -> tuple[SafetyVerdict, Folder]:
    with loading():  # Spark takes a second to import
        from pyspark.sql.utils import is_remote

        from gateway.pipeline.spark.folding import make_on_spark, spark_progress
        from gateway.pipeline.spark.inputs import lines_of
        from gateway.pipeline.spark.session import open_session, send_to_machines

    if sources.topic:
        sources.topic.spans()  # Spark would take longer to fail
    with open_session("groupferry report", master=master, settings=settings) as spark:
        send_to_machines(spark)
        jvm = None if is_remote() else spark
        folder = open_folder(output, jvm)
        tracker = spark.sparkContext.statusTracker() if jvm else None
        with lock(folder, follows=False), spark_progress(tracker):
            lines = lines_of(spark, sources)
            verdict = renew(
                lambda new: make_on_spark(spark, lines, new, top), folder, sources.names
            )
            return verdict, folder


@contextmanager
def _until_signal(outcome: str) -> Iterator[None]:
    """End at Ctrl-C or SIGTERM with one line on the outcome. What is under way is as if the process
    had been killed."""
    number = signal.SIGINT

    def terminate(by: int, _frame: object) -> None:
        nonlocal number
        number = signal.Signals(by)
        raise KeyboardInterrupt

    # The default one is what `loading` knows.
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: terminate}
    before = {by: signal.signal(by, handler) for by, handler in handlers.items()}
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"groupferry: {escape(outcome)}\n")
        raise SystemExit(128 + number) from None
    finally:
        for by, handler in before.items():
            signal.signal(by, handler)


def make_here(parts: Iterable[Tables], output: Folder, top: int) -> Summary:
    """Make the tables of these rows, in an empty folder. `top` is the number of groups with a
    section."""
    summary, maker = Summary(top=top), FilesMaker("rows")
    write_files(output, empty_files())
    for tables in parts:
        summary.add(tables)
        write_files(output, maker.take(tables))
    write_files(output, maker.finish())
    return summary


def renew(
    make: Callable[[Folder], Summary], folder: Folder, inputs: tuple[str, ...]
) -> SafetyVerdict:
    """Make tables and report. They replace the old ones once all are complete, so that a failed run
    leaves the old ones, which belong together."""
    started_s = time.monotonic()
    new = folder / "new"
    _replace(folder, new)  # left by a killed run
    verdict = _report(make(new), new, inputs, started_s)
    _replace(folder, new)
    return verdict


def _replace(folder: Folder, new: Folder) -> None:
    """Replace the old tables and report if the new ones are complete: the page is written last. It
    is also moved last, so that a run that was killed meanwhile can be finished."""
    names = new.names()
    if PAGE in names:
        for name in ("tables", NUMBERS, PAGE):
            if name in names:
                (folder / name).replace(new / name)
    new.delete()


def run_follow(
    sources: Sources, output: str, *, top: int, interval_s: float, keep_days: int | None
) -> NoReturn:
    """Follow the sources until Ctrl-C or SIGTERM ends the process. Raises PipelineError."""
    sources.require_without(output)
    folder = open_folder(output)
    with _until_signal(f"stopped; {output} is that of the last round"), lock(folder, follows=True):
        try:
            follow(sources, folder, Following(folder, top, keep_days), interval_s)
        except sqlite3.Error as error:
            raise PipelineError(
                f"cannot write {folder.path}/{DATABASE} ({error}): make room, or choose another"
                " folder"
            ) from None


def follow(sources: Sources, folder: Folder, following: Following, interval_s: float) -> NoReturn:
    """Take in what has been added at most once per interval, and report on it. Raises
    PipelineError."""
    printed: SafetyVerdict | None = None
    while True:
        started_s = time.monotonic()
        growth = sources.find_growth(following.offsets())
        has_grown = bool(growth.parts or growth.spans)
        if has_grown:
            summary = following.take_in(sources.read(growth), growth.offsets)
        else:
            summary = following.summary()
        if has_grown or (printed is None and summary.groups):
            verdict = _report(summary, folder, sources.names, started_s)
            if verdict != printed:
                printed = verdict
                _print(verdict, folder)
        time.sleep(max(0.0, started_s + interval_s - time.monotonic()))


def _report(
    summary: Summary, folder: Folder, inputs: tuple[str, ...], started_s: float
) -> SafetyVerdict:
    """Write what is made from the tables: the row of the run, the numbers and the page."""
    verdict = judge(summary)
    groups = tuple(_stories(folder, summary))
    run = RunRow(
        cluster_id="",
        inputs=inputs,
        version=version("groupferry"),
        verdict=verdict.headline,
        groups=summary.groups,
        lines=summary.sums["lines"],
        unread=summary.unread_count,
        handovers=summary.sums["handovers"],
        compared=summary.sums["compared"],
        not_compared=dict(summary.not_compared),
        from_ms=summary.from_ms,
        to_ms=summary.to_ms,
        made_ms=int(time.time() * 1_000),
        took_s=time.monotonic() - started_s,
    )
    write_run(folder, run)
    write_report(Report(verdict=verdict, summary=summary, run=run, groups=groups), folder)
    return verdict


def _stories(folder: Folder, summary: Summary) -> Iterator[GroupStory]:
    """The worst groups with their owners and steps."""
    names = {group.group_id for group in summary.worst}
    rows: dict[tuple[str, str, str], list[Any]] = {}
    for table in ("ownership", "steps") if names else ():
        for row in read_rows(folder, table, names):
            rows.setdefault((table, row.cluster_id, row.group_id), []).append(row)
    for group in summary.worst:
        key = group.cluster_id, group.group_id
        yield story(group, rows.get(("ownership", *key), ()), rows.get(("steps", *key), ()))


def write_report(report: Report, output: Folder) -> None:
    """Write the numbers, and the page made from them."""
    output.write_bytes(NUMBERS, REPORTS.dump_json(report, indent=2) + b"\n")
    output.write_bytes(PAGE, page(report).encode())


def _print(verdict: SafetyVerdict, folder: Folder) -> None:
    lines = *verdict.lines, f"{folder.path}/{PAGE}"
    sys.stdout.write("".join(f"{escape(line)}\n" for line in lines))
    sys.stdout.flush()
