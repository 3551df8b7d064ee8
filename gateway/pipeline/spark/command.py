"""`groupferry report`: turns events into tables, a page and a verdict, and prints the verdict.

With `--follow` it processes lines as they arrive, until a signal ends it. The checkpoint names a
batch before it begins, and records its end. A run that is killed in between takes the batch in
again. Needs Spark, so import it only to run the command.
"""

import logging
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from gateway.pipeline import PipelineError
from gateway.pipeline.fold.rows import RunRow
from gateway.pipeline.progress import spark_progress
from gateway.pipeline.quick_verdict import fold_here
from gateway.pipeline.report.page import REPORTS, GroupStory, Report, page, story
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import SafetyVerdict, judge
from gateway.pipeline.spark.analysis import Analysis, SmallAnalysis
from gateway.pipeline.spark.inputs import Sources
from gateway.pipeline.spark.output import CHECKPOINT, Folder, lock
from gateway.pipeline.spark.session import SCHEME, open_session, send_own_code, send_to_machines
from gateway.readable import escaped

_LOOK_INTERVAL_S = 0.25

AnyAnalysis: TypeAlias = Analysis | SmallAnalysis

TakeIn = Callable[[DataFrame, int], None]
"""Takes in the lines (`file`, `place`, `block`, `line`) of one batch, and the batch's number."""


def follow(
    spark: SparkSession, lines: DataFrame, take_in: TakeIn, output: Folder, *, interval_s: float
) -> int:
    """Pass new lines to `take_in`, at most once per interval, until a signal arrives. Returns the
    signal's number. Raises whatever `take_in` raises."""
    failures: list[Exception] = []

    def take_batch(batch: DataFrame, number: int) -> None:
        try:
            take_in(batch, number)
        except Exception as error:
            failures.append(error)
            raise RuntimeError from None  # without the message, which Spark may choke on

    writer = lines.writeStream.foreachBatch(take_batch).trigger(
        processingTime=f"{interval_s} seconds"
    )
    send_own_code(spark.sparkContext)
    with _quiet(), _signals() as signals:
        query = writer.option("checkpointLocation", (output / CHECKPOINT).path).start()
        try:
            # After a failure that Spark chokes on, it calls the stream active for ever.
            while query.isActive and not failures:
                with suppress(queue.Empty):
                    return signals.get(timeout=_LOOK_INTERVAL_S)
        finally:
            query.stop()
        failure = next(iter(failures), query.exception())
        assert failure is not None  # nothing else stops the stream
        raise failure


@contextmanager
def _signals() -> Iterator[queue.SimpleQueue[int]]:
    """The first Ctrl-C or SIGTERM; a second one has its usual effect. The caller checks between
    calls of Spark, because an interrupted call leaves its connection in the middle of an answer."""
    signals = queue.SimpleQueue[int]()

    def note(number: int, _frame: object) -> None:
        signals.put(number)
        restore()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield signals
    finally:
        restore()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Py4J's log of exceptions in a batch, which are raised again here."""
    log = logging.getLogger("py4j.clientserver")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


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
    sources.require()
    is_plain = master is None and not settings and "PYSPARK_GATEWAY_PORT" not in os.environ
    with _tell_interrupt(output):
        if is_plain and "://" not in output and sources.fit_here():
            folder = Folder(None, output)
            with lock(folder, follows=False):
                verdict = renew(None, fold_here(sources.inputs), folder, top, sources.names)
        else:
            verdict, folder = _run_on_spark(sources, output, top, master, settings)
    _print(verdict, folder)
    return verdict.is_safe


def _run_on_spark(
    sources: Sources, output: str, top: int, master: str | None, settings: Mapping[str, str]
) -> tuple[SafetyVerdict, Folder]:
    with open_session(
        "groupferry report",
        master=master,
        settings=settings,
        secrets=sources.secrets(),
        is_long=not sources.are_small(),
    ) as spark:
        send_to_machines(spark)
        folder = Folder(spark, output)
        tracker = None if is_remote() else spark.sparkContext.statusTracker()
        with lock(folder, follows=False), spark_progress(tracker):
            return renew(spark, sources.lines(spark), folder, top, sources.names), folder


@contextmanager
def _tell_interrupt(output: str) -> Iterator[None]:
    """Say what Ctrl-C leaves: the tables in `new` do not count."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"groupferry: interrupted; {escaped(output)} is as it was\n")
        raise


def renew(
    spark: SparkSession | None, lines: Any, folder: Folder, top: int, inputs: tuple[str, ...]
) -> SafetyVerdict:
    """Make tables and report from these lines only, or from these rows without a session. They
    replace the old ones once all are complete, so that a failed run leaves the old ones, which
    belong together."""
    began_s = time.monotonic()
    new = folder / "new"
    _replace(folder, new)  # left by a killed run
    analysis: AnyAnalysis = SmallAnalysis(new, top) if spark is None else Analysis(spark, new, top)
    verdict = _report(analysis, analysis.make(lines), new, inputs, began_s)
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
    sources: Sources,
    output: str,
    *,
    top: int,
    interval_s: int,
    keep_days: int | None,
    master: str | None,
    settings: Mapping[str, str],
) -> int:
    """Follow the sources until a signal arrives. Returns its number. Raises PipelineError."""
    if master is not None and master.startswith(SCHEME):
        raise PipelineError("--follow needs a JVM of its own: Spark Connect makes single reports")
    sources.require_without(output)
    sources.require()
    with open_session(
        "groupferry report", master=master, settings=settings, secrets=sources.secrets()
    ) as spark:
        send_to_machines(spark)
        folder = Folder(spark, output)
        lines = sources.growing_lines(spark)
        analysis = Analysis(spark, folder, top, keep_days)
        printed: list[SafetyVerdict] = []

        def take_in(batch: DataFrame, number: int) -> None:
            began_s = time.monotonic()
            summary = analysis.take_in(batch, number)
            verdict = _report(analysis, summary, folder, sources.names, began_s)
            if verdict not in printed[-1:]:
                printed[:] = [verdict]
                _print(verdict, folder)

        with lock(folder, follows=True):
            return follow(spark, lines, take_in, folder, interval_s=interval_s)


def _report(
    analysis: AnyAnalysis,
    summary: Summary,
    folder: Folder,
    inputs: tuple[str, ...],
    began_s: float,
) -> SafetyVerdict:
    """Write what is made from the tables: the row of the run, the numbers and the page."""
    verdict = judge(summary)
    groups = tuple(_stories(analysis, summary))
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
        took_s=time.monotonic() - began_s,
    )
    analysis.add_run(run)
    write_report(Report(verdict=verdict, summary=summary, run=run, groups=groups), folder)
    return verdict


def _stories(analysis: AnyAnalysis, summary: Summary) -> Iterator[GroupStory]:
    """The worst groups with their owners and steps."""
    ownership, steps = (_of_groups(analysis, summary, name) for name in ("ownership", "steps"))
    for group in summary.worst:
        key = group.cluster_id, group.group_id
        yield story(group, ownership.get(key, ()), steps.get(key, ()))


def _of_groups(
    analysis: AnyAnalysis, summary: Summary, name: str
) -> Mapping[tuple[str, str], Sequence[Any]]:
    """The rows of a table about the worst groups."""
    names = {group.group_id for group in summary.worst}
    rows: dict[tuple[str, str], list[Any]] = {}
    if names and summary.rows[name]:
        for row in analysis.rows_of(name, names):
            rows.setdefault((row.cluster_id, row.group_id), []).append(row)
    return rows


def write_report(report: Report, output: Folder) -> None:
    """Write the numbers, and the page made from them."""
    output.write_text(NUMBERS, REPORTS.dump_json(report, indent=2).decode() + "\n")
    output.write_text(PAGE, page(report))


def _print(verdict: SafetyVerdict, folder: Folder) -> None:
    _say(*verdict.lines, f"{folder.path}/{PAGE}")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{escaped(line)}\n" for line in lines))
    sys.stdout.flush()
