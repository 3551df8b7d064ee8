"""`groupferry report`: turns events into tables, a page and a verdict, and prints the verdict.

Needs Spark, so import it only to run the command.
"""

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from gateway.pipeline.analysis import Analysis
from gateway.pipeline.folders import Folder
from gateway.pipeline.follow import follow
from gateway.pipeline.output_lock import locked
from gateway.pipeline.own_code import send_to_machines
from gateway.pipeline.report.model import Report
from gateway.pipeline.report.numbers.digest import Digest, report
from gateway.pipeline.report.page import page
from gateway.pipeline.session import open_session
from gateway.pipeline.sources import Sources
from gateway.pipeline.verdict import Verdict, judge
from gateway.readable import escaped

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
    with open_session(
        "groupferry report", master=master, settings=settings, secrets=sources.secrets()
    ) as spark:
        send_to_machines(spark.sparkContext)
        folder = Folder(spark, output)
        with locked(spark, folder, follows=False):
            verdict = renew(spark, sources.lines(spark), folder, top)
    _print(verdict, folder)
    return verdict.is_safe


def renew(spark: SparkSession, lines: DataFrame, folder: Folder, top: int) -> Verdict:
    """Make tables and report from these lines only. They replace the old ones once all are
    complete, so that a failed run leaves the old ones, which belong together."""
    new = folder / "new"
    new.delete()  # left by a failed run
    analysis = Analysis(spark, new, top)
    verdict = _report(analysis, analysis.make(lines), new)
    for name in ("tables", NUMBERS, PAGE):
        (folder / name).become(new / name)
    new.delete()
    return verdict


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
    sources.require_without(output)
    sources.require()
    with open_session(
        "groupferry report", master=master, settings=settings, secrets=sources.secrets()
    ) as spark:
        send_to_machines(spark.sparkContext)
        folder = Folder(spark, output)
        lines = sources.growing_lines(spark)
        analysis = Analysis(spark, folder, top, keep_days)
        said: list[Verdict] = []

        def take_in(batch: DataFrame, number: int) -> None:
            verdict = _report(analysis, analysis.take_in(batch, number), folder)
            if verdict not in said[-1:]:
                said.append(verdict)
                _print(verdict, folder)

        with locked(spark, folder, follows=True):
            return follow(spark, lines, take_in, folder, interval_s=interval_s)


def _report(analysis: Analysis, digest: Digest, folder: Folder) -> Verdict:
    write_report(report(digest, analysis.drawn(digest)), folder)
    return judge(digest)


def write_report(report: Report, output: Folder) -> None:
    """Write the numbers, and the page made from them."""
    output.write_text(NUMBERS, report.model_dump_json(indent=2) + "\n")
    output.write_text(PAGE, page(report))


def _print(verdict: Verdict, folder: Folder) -> None:
    told = (*verdict.lines, f"{folder.path}/{PAGE}")
    sys.stdout.write("".join(f"{escaped(line)}\n" for line in told))
    sys.stdout.flush()
