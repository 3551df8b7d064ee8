"""The page is one self-contained HTML file, made from the report alone."""

import re
from itertools import pairwise

import pytest

from gateway.pipeline.fold.rows import RunRow, StepRow
from gateway.pipeline.report.page import REPORTS, Report, page, story
from gateway.pipeline.report.plots import TICK_SHARE, Axis
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import judge
from gateway.readable import visible
from tests.gateway.pipeline.fold.test_stories import FOLDER
from tests.gateway.pipeline.report.html_pages import Page
from tests.gateway.pipeline.stories import play_story
from tests.support.event_writer import START_MS
from tests.support.folded_lines import fold_texts, summary_of

HOSTILE = '"><script>alert(1)</script>\u202e</title></style>\x00&amp;'
"""Hostile text for a group id, client id or reason."""
STORY = """0 start
0 host 5
0 load
1 grant MEMBER t-0 t-1
2 event readiness_changed {READY}
3 commit MEMBER t-0=50
4 grant b t-0
5 fetch b t-0=40
9 stop
"""
READY = (
    '"can_convert":false,"direction":"classic->consumer","blockers":1,"blocked_by":'
    '[{"client_id":"c","client_host":"h","member_id":"m","reason":"REASON"}]'
)


def report(name: str = "orders", reason: str = "too old") -> Report:
    """A report on one group with a fault of two kinds."""
    text = STORY.replace("MEMBER", "a").replace("READY", READY)
    lines = []
    for line in play_story(text).lines:
        quoted = [str(part.encode("unicode_escape"), "ascii") for part in (name, reason)]
        quoted = [part.replace('"', '\\"').replace("\\x", "\\u00") for part in quoted]
        lines.append(line.replace("orders", quoted[0]).replace("REASON", quoted[1]))
    summary, tables = summary_of(*lines, "garbage", top=5), fold_texts(*lines)
    step = StepRow(
        cluster_id="c",
        group_id=name,
        migration=1,
        number=1,
        client_id=name,
        client_host="h",
        instance_id=None,
        from_protocol="classic",
        to_protocol="consumer",
        members=2,
        partitions_moved=1,
        least_possible=1,
        members_disturbed=1,
        unowned_ms=1_500,
        from_ms=START_MS,
        to_ms=START_MS + 2_000,
    )
    return Report(
        verdict=judge(summary),
        summary=summary,
        run=run(name, summary),
        groups=tuple(story(group, tables.ownership, (step,)) for group in summary.worst),
    )


def run(name: str, summary: Summary) -> RunRow:
    return RunRow(
        cluster_id="",
        inputs=(name, "b"),
        version="1.2",
        verdict="",
        groups=1,
        lines=9,
        unread=1,
        handovers=1,
        compared=1,
        not_compared={},
        from_ms=summary.from_ms,
        to_ms=summary.to_ms,
        made_ms=START_MS,
        took_s=61.0,
    )


def empty() -> Report:
    return Report(verdict=judge(Summary()), summary=Summary(), run=run("x", Summary()))


@pytest.mark.parametrize("made", [report(), report(HOSTILE, HOSTILE), empty()])
def test_the_page_is_self_contained(made: Report) -> None:
    """The page is well-formed, and ids are unique. It has no scripts and no external resources."""
    source = page(made)
    parsed = Page(source)
    assert parsed.wrong == []
    ids = [element.attributes["id"] for element in parsed.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in parsed.elements:
        assert element.name not in {"script", "img", "link", "iframe", "object", "foreignobject"}
        assert not any(name.startswith("on") or name == "src" for name in element.attributes)
    assert set(re.findall(r"url\(#([\w-]+)\)", source)) <= set(ids)
    assert "://" not in source
    assert "@import" not in source
    assert "\u202e" not in source
    assert "\x00" not in source
    (policy,) = (
        element
        for element in parsed.elements_named("meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_external_text_is_shown_and_harmless() -> None:
    source = page(report(HOSTILE, HOSTILE))
    assert "<script" not in source
    assert Page(source).text.count(visible(HOSTILE, 1_000)) >= 3


def test_the_same_report_gives_the_same_page() -> None:
    """The report may have been read from its JSON."""
    made = report()
    assert page(REPORTS.validate_json(REPORTS.dump_json(made))) == page(made)


def test_the_verdict_comes_first() -> None:
    parsed = Page(page(report()))
    section = parsed.elements_named("section", "verdict")[0]
    assert section.attributes["class"] == "verdict bad"
    assert parsed.text.index("NOT SAFE") < parsed.text.index("Who can go next")


def test_the_page_names_the_groups_that_can_go_next() -> None:
    """The page also says what is in the way of the others."""
    made = report()
    made.summary.blocked.add((("orders", "c: too old"),), 1)
    made.summary.ready.add((("payments", ""),), 1)
    text = Page(page(made)).text
    assert "1 group can convert now:payments" in text
    assert "orders: c: too old" in text


@pytest.mark.parametrize("has_end", [True, False])
def test_no_group_is_called_safe_whose_lines_may_be_missing(*, has_end: bool) -> None:
    """A log without an end is about no group, and may lack lines of any."""
    text = (FOLDER / "clean_handover.txt").read_text().partition("show")[0]
    lines = play_story(text if has_end else text.replace("9 stop\n", "")).lines
    summary = summary_of(*lines, top=5)
    groups = tuple(story(group, (), ()) for group in summary.worst)
    report_ = Report(verdict=judge(summary), summary=summary, run=run("x", summary), groups=groups)
    assert ("SAFE · 1 of 1" in Page(page(report_)).text) == has_end


def test_a_page_without_data_claims_no_success() -> None:
    text = Page(page(empty())).text
    assert "NOT PROVEN: no line is about a group" in text
    assert "SAFE" not in text.replace("NOT PROVEN", "").replace("NOT SAFE", "")


def test_the_style_covers_every_box() -> None:
    """A class without a rule would have no colour."""
    source = page(report())
    (style,) = re.findall(r"<style>(.*?)</style>", source, re.DOTALL)
    boxes = re.findall(r'class="(?:interval|key|bar) ([\w -]+)"', source)
    assert boxes
    for class_ in {class_ for classes in boxes for class_ in classes.split()}:
        assert re.search(rf"\.{class_}[^}}]*\{{", style), class_


@pytest.mark.parametrize("length_ms", [7, 900, 7_000, 7_990, 100_000, 40 * 86_400_000])
def test_the_labels_of_times_have_room(length_ms: int) -> None:
    ticks = list(Axis(0, length_ms).ticks())
    assert ticks
    assert all(0 <= tick.share <= 1 for tick in ticks)
    for one, other in pairwise(ticks):
        assert other.share - one.share > 0.99 * TICK_SHARE
