"""The metrics, read by Prometheus's own parser."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

import gateway
from gateway.control.fleet_door import PROCESS_UP
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.traffic import Traffic
from gateway.groups.group_drivers import GroupRefused
from gateway.metrics import LAG_INTERVAL_S, Metrics, MetricSources
from gateway.observers.counts import AnswerCounts, GroupCounts
from gateway.readable import UNSEEN
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatResponse
from tests.gateway.commands.test_show_gateways import FLEET
from tests.support.admin import admin_stage
from tests.support.hosted_groups import GROUP

CODE = Path(gateway.__file__).parent
INCREASE = re.compile(r'increase\((\w+)\{\w+=~?"([^"]+)"\}')
NAME = re.compile(r"\bgroupferry_[a-z_]+[a-z]")

Series = dict[str, dict[tuple[str, ...], float]]


def parse_series(text: bytes) -> Series:
    """The samples by name, and by their labels' values in the order of the labels' names."""
    series: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            values = tuple(value for _, value in sorted(sample.labels.items()))
            assert values not in series.setdefault(sample.name, {}), "a series is there twice"
            series[sample.name][values] = sample.value
    return series


async def test_a_mixed_group_is_measured() -> None:
    """The metrics agree with the board."""
    async with admin_stage() as stage:
        await stage.groups.lone_classic_member()
        await stage.groups.native("n")
        answer = await stage.ask("/metrics")
    series = parse_series(answer.body)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert series["groupferry_groups"] == {("hosted", "Reconciling", "consumer"): 1}
    assert series["groupferry_members"][("GivingUp", "classic")] == 1
    assert series["groupferry_group_members"][(GROUP, "consumer")] == 1
    assert series["groupferry_group_waits"] == {(GROUP,): 1}
    assert series["groupferry_conversions_total"] == {(): 1}
    assert series["groupferry_partitions_owned_twice_total"] == {(): 0}
    assert series["groupferry_events_total"][("group_converted",)] == 1
    assert series["groupferry_ready"] == {(): 1}
    assert series["groupferry_state_log_write_seconds_count"][()] >= 2
    assert series["groupferry_backpressure_seconds_total"] == {("broker",): 0, ("client",): 0}
    assert series["groupferry_anchors_lost_total"] == {(): 0}


async def test_groups_with_series_of_their_own_are_limited() -> None:
    """The others still count. Names that are alike once cut share a series."""
    async with admin_stage(metrics_groups_max=2) as stage:
        for group in ("x" * 300 + "1", "x" * 300 + "2", "y"):
            await stage.groups.native("n", group=group)
        series = parse_series((await stage.ask("/metrics")).body)
    assert sum(series["groupferry_groups"].values()) == 3
    assert len(series["groupferry_group_waits"]) <= 2
    assert series["groupferry_groups_without_series"] == {(): 1}


async def test_labels_cannot_disturb_a_terminal_or_a_page() -> None:
    """Clients choose the names of groups. Those that differ keep series of their own."""
    evil = ("a\x1b]0;owned\x07", "a\x9b2J", "a\u202eb", "a\u2066b", "a\u200bb", 'a\n"b\\')
    async with admin_stage() as stage:
        for group in evil:
            await stage.groups.native("n", group=group)
        text = (await stage.ask("/metrics")).body
    assert not UNSEEN.search(text.decode().replace("\n", ""))
    assert len(parse_series(text)["groupferry_group_waits"]) == len(evil)


async def test_the_shards_of_each_gateway_are_measured() -> None:
    """With their addresses, also those on other machines."""
    async with admin_stage(fleet=FLEET) as stage:
        series = parse_series((await stage.ask("/metrics")).body)
    assert series["groupferry_gateway_shards"] == {("h:1", "a"): 4, ("i:1", "b"): 0}


async def test_answers_are_counted_by_api_and_code(autojump_clock: MockClock) -> None:
    """Whatever the number of clients."""
    async with admin_stage() as stage:
        answers = AnswerCounts()
        answers.record(HeartbeatResponse(error_code=0))
        answers.record(HeartbeatResponse(error_code=0))
        answers.record(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        answers.record_wait(HeartbeatResponse, 0.2)
        metrics = metrics_of(stage.groups.table._services.limits, stage.board, answers)
        series = parse_series(await metrics.measure())
    assert series["groupferry_requests_total"] == {
        ("Heartbeat", "NONE"): 2,
        ("Heartbeat", "REBALANCE_IN_PROGRESS"): 1,
    }
    times = series["groupferry_request_seconds_bucket"]
    assert times["Heartbeat", "0.0005"] == times["Heartbeat", "0.1"] == 2
    assert times["Heartbeat", "0.25"] == times["Heartbeat", "+Inf"] == 3
    assert series["groupferry_request_seconds_sum"] == {("Heartbeat",): 0.2}


def metrics_of(limits: object, board: object, answers: AnswerCounts) -> Metrics:
    """Metrics of these sources."""
    return Metrics(
        MetricSources(
            board=board,  # type: ignore[arg-type]
            limits=limits,  # type: ignore[arg-type]
            answers=answers,
            traffic=Traffic(),
            counts=GroupCounts(),
            client_warnings=ClientWarnings(),
            now_ms=lambda: 0,
            groups_max=1,
        )
    )


async def test_refusals_are_counted_by_reason() -> None:
    """Refused requests and refused connections count, as a client meets them first."""
    async with admin_stage(max_groups=1) as stage:
        await stage.groups.native("n")
        with pytest.raises(GroupRefused):
            await stage.groups.native("n", group="late")
        stage.client_warnings.warn("connection_refused", "10.0.0.1")
        stage.client_warnings.warn("connection_refused", "10.0.0.1")
        series = parse_series((await stage.ask("/metrics")).body)
    assert series["groupferry_refusals_total"] == {
        ("too_many_groups",): 1,
        ("connection_refused",): 2,
    }


async def test_what_alerts_compare_with_before_is_there_from_the_start() -> None:
    """The increase of a series that begins with 1 is 0, so its first event would raise no alert."""
    async with admin_stage() as stage:
        series = parse_series((await stage.ask("/metrics")).body)
    watched = INCREASE.findall((CODE / "deploy" / "alerts.yaml").read_text())
    assert len(watched) == 4
    for name, values in watched:
        for value in values.split("|"):
            assert series[name][(value,)] == 0, value


async def test_a_late_task_shows_as_lag(autojump_clock: MockClock) -> None:
    """The worst one since the last scrape."""
    metrics = metrics_of(None, None, AnswerCounts())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(metrics.watch_lag)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(LAG_INTERVAL_S + 2.0)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert round(metrics._lag_s, 3) == 2.0


async def test_alerts_dashboard_and_documentation_name_the_metrics_that_exist() -> None:
    """Each of them, and the documentation names all."""
    async with admin_stage() as stage:
        await stage.groups.native("n")
        text = (await stage.ask("/metrics")).body.decode()
    families = list(text_string_to_metric_families(text))
    samples = {sample.name for family in families for sample in family.samples}
    declared = {family.name for family in families}
    declared |= {f"{family.name}_total" for family in families if family.type == "counter"}
    declared |= {f"{family.name}_bucket" for family in families if family.type == "histogram"}
    exist = samples | declared | {PROCESS_UP}  # of a fleet only
    for name in ("deploy/alerts.yaml", "deploy/dashboard.json", "docs/metrics.md"):
        assert metric_names((CODE / name).read_text()) - exist == set(), name
    documented = metric_names((CODE / "docs" / "metrics.md").read_text())
    missing = [
        family.name for family in families if not {family.name, f"{family.name}_total"} & documented
    ]
    assert missing == [], "docs/metrics.md describes each metric"
    dashboard = json.loads((CODE / "deploy" / "dashboard.json").read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def metric_names(text: str) -> set[str]:
    """The metrics that a text names."""
    names: Iterable[str] = NAME.findall(text)
    return set(names)
