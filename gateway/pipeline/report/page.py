"""The page: one self-contained HTML file, made from the `Report` alone.

From top to bottom: the verdict in words, the plots, the worst groups, the evidence. The page has no
script, makes no requests, and is identical for the same report.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from gateway.pipeline.report import verdict
from gateway.pipeline.report.group_story import around, what_matters
from gateway.pipeline.report.markup import Markup, join, shortened, tag, trusted
from gateway.pipeline.report.model import ClientVersion, Provenance, Report, Totals
from gateway.pipeline.report.plots import (
    READINESS,
    client_name,
    protocol_timeline,
    readiness_bars,
    step_bars,
)
from gateway.pipeline.report.sections import (
    TITLES,
    evidence_section,
    group_section,
    left_out,
    note,
    rebalance_rows,
)
from gateway.pipeline.report.svg import Axis, patterns
from gateway.pipeline.report.verdict import Check
from gateway.pipeline.report.wording import counted, duration, number
from gateway.readable import moment

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Tells the browser to run and fetch nothing."""
_MARKS = {"good": "✓", "warning": "!", "bad": "✗", "none": "?"}
_INPUTS_MAX = 8
_INPUT_LENGTH_MAX = 120
_OPEN_GROUPS_MAX = 3
"""Sections of groups that are not folded up."""
_BLOCKS_MAX = 12
_FILTERS = {"all": "all", "findings": "with findings", "migrations": "with migrations"}
"""Which groups may be shown, by the ids that style.css knows."""


def page(report: Report) -> str:
    """The contents of the file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "groupferry: what the migration did"),
        tag("style", _style()),
    )
    body = tag("body", patterns(), tag("main", *_sections(report)))
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _sections(report: Report) -> Iterator[Markup]:
    totals = report.totals
    yield tag("h1", "What the migration did")
    yield note(_period(totals))
    if report.provenance is not None:
        yield note(_provenance(report.provenance))
    yield _verdict(report)
    if totals.groups:
        yield _figures(totals)
        yield from _plots(report)
        yield from _groups(report)
    yield tag("h2", "Evidence")
    yield note(
        "Rows of the tables behind the figures, all times UTC. Point at a column's heading to see"
        " what it means."
    )
    for key in TITLES:
        if key in report.evidence:
            yield evidence_section(key, report.evidence[key])
    yield _glossary()


def _period(totals: Totals) -> str:
    if totals.from_ms is None or totals.to_ms is None:
        return "No event of a group was found."
    lasted = duration(totals.to_ms - totals.from_ms)
    return (
        f"{counted(totals.groups, 'group')}, {counted(totals.partitions, 'partition')};"
        f" {moment(totals.from_ms)} to {moment(totals.to_ms)} ({lasted})"
    )


def _provenance(source: Provenance) -> str:
    inputs = ", ".join(shortened(each, _INPUT_LENGTH_MAX) for each in source.inputs[:_INPUTS_MAX])
    more = len(source.inputs) - _INPUTS_MAX
    rest = f" and {number(more)} more" if more > 0 else ""
    versions = ", ".join(f"{name} {version}" for name, version in source.versions.items())
    return f"From {inputs}{rest}, in {duration(source.took_s * 1_000)}, with {versions}."


def _verdict(report: Report) -> Markup:
    headline = verdict.headline(report.totals)
    checks = [
        _check(check)
        for check in verdict.safety(report.totals)
        if report.totals.groups or check.level != "good"
    ]
    sentences = (tag("li", text) for text in verdict.outcome(report.totals, report.clients))
    parts = [tag("p", _mark(headline), headline.answer, class_="headline")]
    if report.totals.groups:
        parts.append(tag("ul", *sentences, class_="outcome"))
    return tag(
        "section",
        *parts,
        tag("ul", *checks, class_="checks") if checks else "",
        class_=f"verdict {headline.level}",
        aria_label="Verdict",
    )


def _check(check: Check) -> Markup:
    answer = check.answer
    if check.evidence:
        answer = tag("a", check.answer, href=f"#evidence-{check.evidence}")
    return tag("li", _mark(check), answer, class_=check.level)


def _mark(check: Check) -> Markup:
    return tag("span", _MARKS[check.level], class_="mark", aria_hidden="true")


def _figures(totals: Totals) -> Markup:
    figures = (
        (number(totals.overlaps), "times owned twice"),
        (number(totals.non_monotonic), "offsets that went back"),
        (number(totals.lost_commits), "commits lost"),
        (number(totals.unowned_partition_s), "partition-seconds without owner"),
        (
            number(totals.groups_on_consumer),
            f"of {counted(totals.groups, 'group')} on the consumer protocol",
        ),
        (number(totals.rebalances), "rebalances"),
        (number(totals.members_disturbed), "members interrupted"),
        (
            number(totals.partitions_moved),
            f"partitions moved; {number(totals.partitions_moved_least)} would have been enough",
        ),
    )
    return tag(
        "dl",
        *(tag("div", tag("dt", what), tag("dd", figure)) for figure, what in figures),
        class_="figures",
    )


def _plots(report: Report) -> Iterator[Markup]:
    yield tag("h2", "Protocol of each group over time")
    yield _legend(
        ("classic", "members on the classic protocol"),
        ("consumer", "members on the consumer protocol (KIP-848)"),
        ("empty", "no members"),
        ("migration", "migration"),
        ("finding-mark", "finding"),
    )
    yield from _timeline(report)
    yield tag("h2", "Time without owner by step of the migration")
    yield note(
        "A step is a member that changed its protocol, and lasts until the next one does. p·s are"
        " partition-seconds, added up over all migrations."
    )
    yield step_bars(report.step_costs) if report.step_costs else note("No migration.")
    yield left_out(report.step_costs_left_out, "step", "timeline")
    yield tag("h2", "Who can go next, by client version")
    yield _legend(*((class_, meaning) for class_, (meaning, _) in READINESS.items()))
    yield (readiness_bars(report.clients) if report.clients else note("No members at the end."))
    yield left_out(report.clients_left_out, "version", "readiness")
    yield _blocks(report.clients)


def _timeline(report: Report) -> Iterator[Markup]:
    full_span = (report.totals.from_ms or 0, report.totals.to_ms or 0)
    matters = (
        span
        for group in report.groups
        for span in what_matters(group.migrations, group.finding_times_ms, full_span)
    )
    shown = around(matters, full_span)
    if shown != full_span:
        yield note(
            f"Shown is the time around migrations and findings: {duration(shown[1] - shown[0])}"
            f" of {duration(full_span[1] - full_span[0])}."
        )
    yield protocol_timeline(report.groups, Axis(*shown))
    yield _groups_left_out(report)


def _blocks(clients: Sequence[ClientVersion]) -> Markup:
    lines = [
        tag("li", tag("bdi", client_name(client)), ": ", reason)
        for client in clients
        for reason in client.blocked_by
    ]
    if not lines:
        return join(())
    return join((tag("p", "Why groups cannot convert:"), tag("ul", *lines[:_BLOCKS_MAX])))


def _groups(report: Report) -> Iterator[Markup]:
    yield tag("h2", "The groups, worst first")
    yield note("By the number of findings, then by the time that partitions had no owner.")
    rebalances = rebalance_rows(report.evidence)
    yield tag(
        "section",
        *_filter(),
        *(
            group_section(group, place, rebalances, is_open=place <= _OPEN_GROUPS_MAX)
            for place, group in enumerate(report.groups, start=1)
        ),
        class_="groups",
    )
    yield _groups_left_out(report)


def _filter() -> Iterator[Markup]:
    """Chooses which groups are shown, by style alone."""
    for place, (name, meaning) in enumerate(_FILTERS.items()):
        checked = "" if not place else None
        yield tag("input", type="radio", name="groups", id=f"show-{name}", checked=checked)
        yield tag("label", meaning, for_=f"show-{name}")


def _groups_left_out(report: Report) -> Markup:
    count = report.totals.groups - len(report.groups)
    if count <= 0:
        return join(())
    return note(f"{counted(count, 'group')} more, in Parquet only.")


def _legend(*entries: tuple[str, str]) -> Markup:
    return tag(
        "p",
        *(
            tag("span", tag("span", class_=f"key {class_}"), meaning, class_="entry")
            for class_, meaning in entries
        ),
        class_="legend",
    )


def _glossary() -> Markup:
    terms = (
        (
            "classic protocol",
            "JoinGroup, SyncGroup and Heartbeat: all members stop while partitions are reassigned.",
        ),
        ("consumer protocol", "KIP-848: partitions move one by one while other members go on."),
        (
            "partition-second",
            "One partition without an owner for one second while its group has members:"
            " its new records had to wait. Also written p·s.",
        ),
        ("rebalance", "The group reassigns its partitions."),
        ("interrupted", "A member that had to give up or take over partitions, or to rejoin."),
        (
            "would have been enough",
            "The fewest partitions that had to change hands for that change of members.",
        ),
        (
            "finding",
            "A partition owned twice, a committed offset that went back, a lost commit, a member"
            " that claimed partitions not granted to it, a contradiction, or a missing event.",
        ),
    )
    return tag(
        "section",
        tag("h2", "Words"),
        tag("dl", *(join((tag("dt", term), tag("dd", text))) for term, text in terms)),
        class_="words",
    )


@cache
def _style() -> Markup:
    return trusted(files(__package__).joinpath("style.css").read_text())
