"""Shows the outcome of a run: as a table for people, or as JSON for programs."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from gateway.demo.outcome import DemoOutcome, DemoTotals
from gateway.readable import escape

_PLAIN_WIDTH = 110


def as_json(outcome: DemoOutcome) -> str:
    """The outcome as one JSON document."""
    return json.dumps({"ok": outcome.reason is None, **asdict(outcome)}, indent=2)


def show(outcome: DemoOutcome, *, rebalances: bool = False) -> None:
    """Print the outcome to stdout, in colour on a terminal. With `rebalances`, list them."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    if outcome.steps:
        console.print(_steps(outcome))
    if rebalances and outcome.steps:
        console.print(_rebalances(outcome))
    if outcome.totals is not None:
        console.print(_figures(outcome, outcome.totals))
    if outcome.verdict:
        console.print("The verdict on its events")
    for line in outcome.verdict:
        console.print(f"  {escape(line)}", markup=False, soft_wrap=True)


def _steps(outcome: DemoOutcome) -> Table:
    table = Table(
        title="The roll, step by step",
        title_justify="left",
        caption="moved: partitions; disturbed: members; unowned: partition-seconds",
        caption_justify="left",
    )
    table.add_column("step")
    table.add_column("group")
    for heading in ("classic", "native", "settled", "moved", "disturbed", "unowned"):
        table.add_column(heading, justify="right")
    for step in outcome.steps:
        table.add_row(
            step.title,
            step.group_protocol,
            str(step.classic_members),
            str(step.native_members),
            f"{step.settled_after_s:.1f} s",
            str(step.disturbance.partitions_moved),
            str(step.disturbance.members_disturbed),
            f"{step.disturbance.unowned_partition_s:.1f} p-s",
        )
    return table


def _rebalances(outcome: DemoOutcome) -> Table:
    table = Table(
        title="The rebalances that consumers saw, apart from their own restarts",
        title_justify="left",
        caption="in partitions",
        caption_justify="left",
    )
    for heading in ("cause", "consumer"):
        table.add_column(heading)
    for heading in ("gave up", "got"):
        table.add_column(heading, justify="right")
    for step in outcome.steps:
        for change in step.rebalanced:
            table.add_row(step.title, change.member, str(change.gave_up), str(change.got))
    return table


def _figures(outcome: DemoOutcome, totals: DemoTotals) -> Table:
    table = Table(title="In total", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("figure")
    committed, end = sum(totals.committed_offsets), sum(totals.end_offsets)
    rows = [
        ("records produced", _color_figure(totals.produced, totals.not_produced == 0)),
        ("records consumed", str(totals.consumed)),
        ("lost", _color_figure(totals.lost, totals.lost == 0)),
        ("delivered twice", str(totals.delivered_twice)),
        (
            "partitions with two owners",
            _color_figure(
                totals.partitions_with_two_owners, totals.partitions_with_two_owners == 0
            ),
        ),
        (
            "committed, read from the upstream",
            _color_figure(
                f"{committed} of {end}, {len(totals.end_offsets)} partitions",
                totals.committed_offsets == totals.end_offsets,
            ),
        ),
        *(
            (f"conversion {direction}", _color_figure(conversion, conversion != "none"))
            for direction, conversion in outcome.conversions.items()
        ),
    ]
    if totals.consumers_died:
        rows.append(("consumers that died and were restarted", str(totals.consumers_died)))
    if totals.partitions_held_after_fencing:
        held = str(totals.partitions_held_after_fencing)
        rows.append(("partitions held by a fenced member", held))
    for row in rows:
        table.add_row(*row)
    return table


def _color_figure(figure: object, good: bool) -> str:
    return f"[{'green' if good else 'bold red'}]{figure}[/]"
