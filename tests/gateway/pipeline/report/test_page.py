"""The page is one self-contained HTML file, made from the report alone."""

import re
from collections.abc import Callable

import pytest

from gateway.pipeline.report.markup import seen
from gateway.pipeline.report.model import Cell, Provenance, Report, Totals
from gateway.pipeline.report.page import page
from tests.support.html_pages import Page
from tests.support.reports import (
    END_MS,
    HOSTILE,
    START_MS,
    calm_report,
    evidence,
    hostile_report,
    large_report,
)

REPORTS: list[Callable[[], Report]] = [
    calm_report,
    hostile_report,
    large_report,
    lambda: Report(totals=Totals()),
]
SIZE_MAX = 8 << 20


@pytest.mark.parametrize("make", REPORTS)
def test_the_page_is_self_contained(make: Callable[[], Report]) -> None:
    """It is well-formed, ids are unique, and links have targets. It has no scripts and no external
    resources."""
    source = page(make())
    found = Page(source)
    assert found.wrong == []
    ids = [each.attributes["id"] for each in found.elements if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    for each in found.elements:
        assert each.name not in {"script", "img", "link", "iframe", "object", "foreignobject"}
        assert not any(name.startswith("on") or name == "src" for name in each.attributes)
        if (href := each.attributes.get("href")) is not None:
            assert href.removeprefix("#") in ids
    used = set(re.findall(r"url\(#([\w-]+)\)", source))
    assert used <= set(ids)
    assert "://" not in source
    assert "@import" not in source
    assert len(source.encode()) < SIZE_MAX


@pytest.mark.parametrize("make", REPORTS)
def test_the_same_report_gives_the_same_page(make: Callable[[], Report]) -> None:
    """Changes are therefore visible. The report may have been read from its JSON."""
    report = make()
    assert page(report) == page(make())
    assert page(Report.model_validate_json(report.model_dump_json())) == page(report)


def test_external_text_is_harmless() -> None:
    """These are group ids, client ids, topics, reasons, and lines of garbage."""
    source = page(hostile_report())
    assert "<script" not in source
    assert "\u202e" not in source
    assert "\x00" not in source
    found = Page(source)
    assert len(found.named("style")) == 1
    assert found.named("title")[0].text == "groupferry: what the migration did"
    assert found.text.count(seen(HOSTILE)) >= 5


def test_the_browser_must_not_run_or_fetch_anything() -> None:
    """This protects against a forgotten escape."""
    (policy,) = (
        each
        for each in Page(page(calm_report())).named("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_verdict_comes_first_with_links_to_its_evidence() -> None:
    """A manager need not read on, but an engineer can."""
    found = Page(page(hostile_report()))
    verdict = found.named("section", "verdict")[0]
    assert verdict.attributes["class"] == "verdict bad"
    links = [each for each in found.named("a") if each.attributes["href"] == "#evidence-overlaps"]
    assert [each.text for each in links] == ["A partition was owned by two members at once (once)."]


def test_a_step_names_its_clients_and_links_to_its_rebalances() -> None:
    """Those beyond the limit of the evidence are counted only. Names of clients are external."""
    report = calm_report()
    (group,) = report.groups
    who = {"left": ("payments-3",), "arrived": (HOSTILE,)}
    step = group.steps[0].model_copy(
        update={**who, "rebalances": 2, "rebalances_ms": (START_MS, END_MS)}
    )
    shown = group.model_copy(update={"steps": (step,)})
    rows: dict[str, Cell] = {"cluster_id": "", "group_id": group.group_id, "from_ms": END_MS}
    with_rows = {"rebalances": evidence("rebalances", {**rows, "from_ms": 1}, rows)}
    source = page(report.model_copy(update={"groups": (shown,), "evidence": with_rows}))
    found = Page(source)
    assert found.wrong == []
    assert "<script" not in source
    assert "payments-3 → " in found.text
    links = [each.attributes["href"] for each in found.named("a") if each.text == "↓"]
    assert links == ["#rebalances-2"]
    assert any(each.attributes.get("id") == "rebalances-2" for each in found.named("tr"))


def test_the_page_says_where_it_comes_from() -> None:
    """An input may have any name."""
    told = Provenance(inputs=(HOSTILE, "b"), versions={"groupferry": "1.2"}, took_s=61)
    found = Page(page(calm_report().model_copy(update={"provenance": told})))
    assert f"{seen(HOSTILE)}, b, in 1 min 1 s, with groupferry 1.2." in found.text


def test_groups_are_filtered_by_style_alone() -> None:
    """Every choice but the first has a rule that hides the other groups."""
    source = page(calm_report())
    choices = Page(source).named("input")
    assert [each.attributes["id"] for each in choices if "checked" in each.attributes] == [
        "show-all"
    ]
    for each in choices[1:]:
        kind = (each.attributes["id"] or "").removeprefix("show-")
        assert f"#show-{kind}:checked ~ .group:not(.has-{kind})" in source


def test_groups_without_a_section_are_counted() -> None:
    """Parquet has them."""
    text = Page(page(large_report())).text
    assert "9,950 groups more, in Parquet only." in text


def test_a_page_without_data_claims_no_success() -> None:
    """Unreadable lines are reported."""
    totals = Totals(rejected_lines=2)
    lines = evidence("rejected_lines", {"text": "garbage"}, left_out=1)
    found = Page(page(Report(totals=totals, evidence={"rejected_lines": lines})))
    assert "Nothing to judge" in found.text
    assert "2 lines of the input could not be read." in found.text
    assert "No partition had two owners" not in found.text
    assert "garbage" in found.text


def test_the_style_covers_every_owner_and_kind() -> None:
    """A class without a rule would be black."""
    source = page(large_report())
    (style,) = re.findall(r"<style>(.*?)</style>", source, re.DOTALL)
    classes = set(re.findall(r'<rect[^>]* class="([\w -]+)"', source))
    assert {"owner-0", "owner-7", "owner-0-striped", "gap", "consumer", "too-old"} <= classes
    for class_ in classes:
        assert re.search(rf"\.{class_}[^}}]*\{{ fill:", style), class_


def test_a_section_tells_the_commits_of_each_partition() -> None:
    """With the records per second between the first commit and the latest."""
    found = Page(page(calm_report()))
    cells = [each.text for each in found.named("td")]
    first = cells.index("18,011")
    assert cells[first + 1 : first + 3] == ["100", "2027-01-15 08:02:59.989Z"]
    assert "numbers-11" in found.text


def test_a_section_tells_if_only_some_partitions_were_compared() -> None:
    report = calm_report()
    group = report.groups[0].model_copy(update={"commits_compared_max": 1_000})
    text = Page(page(report.model_copy(update={"groups": (group,)}))).text
    assert "Only the first 1,000 partitions by name are compared." in " ".join(text.split())
