"""Charts of the cost of steps and the readiness of client versions."""

from gateway.pipeline.report.model import StepCost
from gateway.pipeline.report.plots import READINESS, client_name, readiness_bars, step_bars
from tests.support.html_pages import Page
from tests.support.reports import client_version


def cost(number: int, unowned: float) -> StepCost:
    """The steps of two migrations."""
    return StepCost(
        number=number, steps=2, unowned_partition_s=unowned, unowned_partition_s_most=unowned
    )


def test_a_bar_is_as_long_as_the_cost_of_its_step() -> None:
    """The figure is behind it."""
    page = Page(step_bars([cost(1, 2.0), cost(2, 1.0), cost(3, 0.0)]))
    widths = [float(each.attributes["width"] or 0) for each in page.named("rect", "unowned")]
    assert widths[0] == 2 * widths[1]
    assert widths[2] == 1
    figures = [each.text for each in page.named("text", "figure")]
    assert figures == ["2 p·s in 2 migrations", "1 p·s in 2 migrations", "0 p·s in 2 migrations"]


def test_steps_without_cost_are_drawn() -> None:
    """No partition was without an owner."""
    assert Page(step_bars([cost(1, 0.0)])).wrong == []


def test_members_of_a_version_are_grouped_by_readiness() -> None:
    """Kinds without members are omitted."""
    page = Page(readiness_bars([client_version("a", "1", on_consumer=1, too_old=3)]))
    rects = page.named("rect")
    assert [each.attributes["class"] for each in rects] == ["consumer", "too-old"]
    first, second = (float(each.attributes["width"] or 0) for each in rects)
    assert second == 3 * first
    assert float(rects[1].attributes["x"] or 0) == float(rects[0].attributes["x"] or 0) + first
    assert [each.text for each in page.named("text", "figure")] == ["4 members"]


def test_every_kind_of_readiness_is_drawn() -> None:
    """Its title explains it."""
    client = client_version("a", "1", on_consumer=1, ready=1, too_old=1, unknown=1, blocked=1)
    text = Page(readiness_bars([client])).text
    assert all(f"a 1: 1 member, {meaning}" in text for meaning, _ in READINESS.values())


def test_a_client_has_its_reported_name() -> None:
    """Clients before Kafka 2.4 report none."""
    assert client_name(client_version("a", "1")) == "a 1"
    assert client_name(client_version("a", None)) == "a"
    assert client_name(client_version(None, None)) == "(unnamed client)"
