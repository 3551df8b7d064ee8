"""The page of figures is that of the committed results."""

import re
from pathlib import Path

from tests.bench.figures import (
    COST_PICTURE,
    LATENCY_PICTURE,
    PAGE,
    SUMMARY,
    committed_results,
    costs_picture,
    latency_picture,
    page,
    summary_of,
)

README = Path(__file__).parents[2] / "README.md"


def test_the_page_and_its_pictures_are_made_from_the_committed_results() -> None:
    results = committed_results()
    assert PAGE.read_text() == page(PAGE.read_text(), results)
    assert COST_PICTURE.read_text() == costs_picture(results)
    assert LATENCY_PICTURE.read_text() == latency_picture(results)


def test_the_readme_gives_three_ratios_of_the_summary() -> None:
    summary = summary_of(committed_results())
    ratios = dict(re.findall(r"^\| ([^|]+) \| \w+ \| ([\d.]+) \|", summary, re.MULTILINE))
    named = (
        "a short request that passes, 100 connections",
        "Fetch of 64 KiB",
        "Heartbeat, 100 connections",
    )
    (line,) = re.findall(r"- \[figures\.md\](?:.|\n  )+", README.read_text())
    assert re.findall(r"\d\.\d\d", line) == [ratios[name] for name in named]


def test_a_reader_finds_twelve_figures_at_the_top() -> None:
    assert len(SUMMARY) == 12
