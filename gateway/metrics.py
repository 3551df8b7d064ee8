"""The metrics, as text for Prometheus.

Nothing is counted here: at each scrape, everything is read from where it is anyway, one group after
another, so that a scrape never holds up the groups.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import accumulate

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gateway.board.board import Board
from gateway.board.group_stats import GroupStats
from gateway.board.views import GatewayLine, GroupLine
from gateway.board.words import short
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.traffic import Traffic
from gateway.events.catalog import EVENTS
from gateway.groups.group_limits import GroupLimits
from gateway.hosting.states import AnchorPhase
from gateway.observers.counts import AnswerCounts, Durations, GroupCounts
from gateway.readable import escape
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import name_of

CONTENT_TYPE = CONTENT_TYPE_LATEST
LAG_INTERVAL_S = 0.5
"""How often the lag of the event loop is measured."""
# Prometheus takes no series from nothing to 1 for an increase: what alerts look at begins with 0.
_ALERTED_REFUSALS = ("connection_refused", "too_many_groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """Where the numbers come from."""

    board: Board
    limits: GroupLimits
    answers: AnswerCounts
    traffic: Traffic
    counts: GroupCounts
    client_warnings: ClientWarnings
    now_ms: Callable[[], int]
    groups_max: int
    """Groups with series of their own."""


@dataclass(slots=True)
class _Scrape:
    """What one scrape has found."""

    gateway: GatewayLine
    total: GroupStats
    groups: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    members: Counter[tuple[str, str]] = field(default_factory=Counter)
    anchors: Counter[tuple[str]] = field(default_factory=Counter)
    lines: list[GroupLine] = field(default_factory=list)
    lines_left_out: int = 0


class Metrics:
    """Answers scrapes, one at a time."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._one = trio.Lock()
        self._reading: _Scrape | None = None
        self._lag_s = 0.0
        """The worst lag since the last scrape."""

    async def watch_lag(self) -> None:
        """Measure how late the event loop wakes a task, until cancelled."""
        while True:
            before_s = trio.current_time()
            await trio.sleep(LAG_INTERVAL_S)
            self._lag_s = max(self._lag_s, trio.current_time() - before_s - LAG_INTERVAL_S)

    async def measure(self) -> bytes:
        """The metrics of this moment."""
        async with self._one:
            self._reading = await self._read()
            text: bytes = generate_latest(self._registry)
            self._lag_s = 0.0
            return text

    async def _read(self) -> _Scrape:
        board, groups_max = self._sources.board, self._sources.groups_max
        total = board.group_stats.total(self._sources.now_ms())
        reading = _Scrape(gateway=board.gateway(), total=total)
        async for line, members, anchor in board.in_memory():
            reading.groups[line.mode, line.type or "", line.state] += 1
            reading.members.update(members)
            if anchor is not AnchorPhase.ABSENT:
                reading.anchors[(anchor,)] += 1
            if len(reading.lines) < groups_max:
                reading.lines.append(line)
            else:
                reading.lines_left_out += 1
        return reading

    def collect(self) -> Iterator[Metric]:
        """The series, for the registry."""
        if self._reading is not None:
            yield from self._gateway_metrics(self._reading)
            yield from self._group_metrics(self._reading)
            yield from self._request_metrics()

    def _gateway_metrics(self, reading: _Scrape) -> Iterator[Metric]:
        gateway, hosted = reading.gateway, self._sources.limits.hosted
        yield _gauge(
            "build_info", "The version, as a label.", [((version("groupferry"),), 1)], "version"
        )
        yield _one("ready", "1 if clients can be served.", gateway.readiness.is_ready)
        yield _one("brokers", "Live brokers of the cluster.", len(gateway.brokers))
        yield _one("connections", "Open client connections.", gateway.connections)
        yield _one("connections_max", "Most client connections.", gateway.max_connections)
        yield _one("groups_in_memory", "Hosted groups in memory.", hosted.count)
        yield _one("groups_in_memory_max", "Most hosted groups in memory.", hosted.groups_max)
        process = gateway.process
        served = [] if process is None else [((), len(process.shards))]
        yield _gauge("shards", "Shards that the process of a fleet serves.", served)
        took_ms = None if process is None else process.move_took_ms
        yield _gauge(
            "shard_move_seconds",
            "How long the latest move of a shard took the process.",
            [] if took_ms is None else [((), took_ms / 1000)],
        )
        yield _gauge(
            "gateway_shards",
            "Shards that each gateway of the fleet is to have.",
            [((one.name, one.address), len(one.shards)) for one in gateway.fleet],
            *("gateway", "address"),
        )
        yield _gauge(
            "anchors", "Anchors; Stable ones hold their group.", reading.anchors.items(), "phase"
        )
        yield _counter(
            "anchors_lost",
            "Anchors that the cluster no longer had.",
            [((), self._sources.counts.anchors_lost)],
        )
        yield _one(
            "event_loop_lag_seconds",
            "The longest delay of a task since the last scrape.",
            self._lag_s,
        )

    def _group_metrics(self, reading: _Scrape) -> Iterator[Metric]:
        total = reading.total
        yield _gauge(
            "groups",
            "Groups in memory, and forwarded ones.",
            reading.groups.items(),
            *("mode", "type", "state"),
        )
        yield _gauge(
            "members",
            "Members of these groups.",
            reading.members.items(),
            *("protocol", "phase"),
        )
        for name, about, value in (
            (
                "unowned_partition_seconds",
                "Time of partitions without an owner.",
                total.unowned_partition_ms / 1000,
            ),
            (
                "partitions_owned_twice",
                "Grants of a partition that another had, and statements of members to own one.",
                total.owned_twice,
            ),
            ("members_disturbed", "Times a member had to give up partitions.", total.disturbed),
            ("conversions", "Conversions of groups.", total.conversions),
        ):
            yield _counter(name, about, [((), value)])
        yield _histogram(
            "rebalance_seconds",
            "Rebalances, until their groups were at rest.",
            [((), self._sources.board.group_stats.rebalances)],
        )
        yield _counter(
            "events",
            "Events by name.",
            [((name,), self._sources.board.group_stats.events[name]) for name in EVENTS],
            "event",
        )
        yield from _metrics_by_group(reading)

    def _request_metrics(self) -> Iterator[Metric]:
        answered: Counter[tuple[str, ...]] = Counter()
        for (answer, code), count in self._sources.answers.counts.items():
            answered[_api(answer), name_of(code)] += count
        yield _counter(
            "requests",
            "Answers to requests about groups. An answer with a code per entry counts as NONE.",
            answered.items(),
            *("api", "code"),
        )
        yield self._wait_histogram(answered)
        came, went = self._sources.traffic.totals()
        yield _counter(
            "bytes",
            "Bytes from clients and from brokers.",
            [(("client",), came), (("broker",), went)],
            "side",
        )
        yield _counter(
            "backpressure_seconds",
            "Time that relayed bytes waited for a receiver, by receiver.",
            [
                ((side,), waited)
                for side, waited in self._sources.traffic.pressure.totals_s().items()
            ],
            "side",
        )
        refusals = dict.fromkeys(_ALERTED_REFUSALS, 0)
        refusals |= {
            refusal.name.lower(): n for refusal, n in self._sources.counts.refusals.items()
        }
        yield _counter(
            "refusals",
            "Requests and connections that the gateway itself refused.",
            [
                ((reason,), n)
                for reason, n in (refusals | self._sources.client_warnings.counts).items()
            ],
            "reason",
        )
        writes = self._sources.counts.log_writes
        yield _counter(
            "state_log_failures", "Writes of the state log that failed.", [((), writes.failures)]
        )
        yield _histogram(
            "state_log_write_seconds", "How long a write of the state log takes.", [((), writes)]
        )

    def _wait_histogram(self, answered: Mapping[tuple[str, ...], float]) -> Metric:
        """An answer that was given immediately was not measured, and counts as the shortest."""
        totals: Counter[str] = Counter()
        for (api, _code), count in answered.items():
            totals[api] += round(count)
        waits = {_api(kind): waits for kind, waits in tuple(self._sources.answers.waits.items())}
        samples = []
        for api, total in totals.items():
            durations, whole = waits.get(api, Durations()), Durations()
            whole.total_s = durations.total_s
            whole.counts = [
                max(0, total - sum(durations.counts)) + durations.counts[0],
                *durations.counts[1:],
            ]
            samples.append(((api,), whole))
        return _histogram(
            "request_seconds", "How long an answer about groups takes.", samples, "api"
        )


def _api(answer: type[Struct]) -> str:
    return answer.__name__.removesuffix("Response")


def _metrics_by_group(reading: _Scrape) -> Iterator[Metric]:
    lines = [(short(line.group_id), line) for line in reading.lines]
    yield _gauge(
        "group_members",
        "Members of a group by protocol.",
        [
            ((name, protocol), count)
            for name, line in lines
            if line.members is not None and line.native_members is not None
            for protocol, count in (
                ("consumer", line.native_members),
                ("classic", line.members - line.native_members),
            )
        ],
        *("group", "protocol"),
    )
    yield _gauge(
        "group_unowned_partitions",
        "Partitions of a hosted group whose next owner is waited for.",
        [
            ((name,), line.unowned_partitions)
            for name, line in lines
            if line.unowned_partitions is not None
        ],
        "group",
    )
    yield _gauge(
        "group_lag_records",
        "Records that a group has not committed yet; no sample if it is not known.",
        [((name,), line.lag) for name, line in lines if line.lag is not None],
        "group",
    )
    yield _gauge(
        "group_waits",
        "1 if the group waits for something.",
        [((name,), line.blocker is not None and line.mode == "hosted") for name, line in lines],
        "group",
    )
    yield _counter(
        "group_unowned_partition_seconds",
        "Time of a hosted group's partitions without an owner.",
        [
            ((name,), line.unowned_partition_s)
            for name, line in lines
            if line.unowned_partition_s is not None
        ],
        "group",
    )
    yield _one(
        "groups_without_series",
        "Groups beyond metrics_groups_max, which have no series of their own.",
        reading.lines_left_out,
    )


_PREFIX = "groupferry_"
_Samples = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, about: str, samples: _Samples, *labels: str) -> Metric:
    made = GaugeMetricFamily(_PREFIX + name, about, labels=labels)
    for values, value in _merge_samples(samples):
        made.add_metric(values, value)
    return made


def _counter(name: str, about: str, samples: _Samples, *labels: str) -> Metric:
    made = CounterMetricFamily(_PREFIX + name, about, labels=labels)
    for values, value in _merge_samples(samples):
        made.add_metric(values, value)
    return made


def _histogram(
    name: str, about: str, samples: Iterable[tuple[tuple[str, ...], Durations]], *labels: str
) -> Metric:
    made = HistogramMetricFamily(_PREFIX + name, about, labels=labels)
    for values, durations in samples:
        bounds = (*map(str, durations.bounds_s), "+Inf")
        buckets = list(zip(bounds, accumulate(map(float, durations.counts)), strict=True))
        made.add_metric(values, buckets=buckets, sum_value=durations.total_s)
    return made


def _one(name: str, about: str, value: float) -> Metric:
    return _gauge(name, about, [((), value)])


def _merge_samples(samples: _Samples) -> list[tuple[tuple[str, ...], float]]:
    """The samples with labels that are safe to show. Long names are cut, and may then be alike: a
    series may be there only once."""
    merged: dict[tuple[str, ...], float] = {}
    for values, value in samples:
        labels = tuple(map(escape, values))
        merged[labels] = merged.get(labels, 0.0) + value
    return list(merged.items())
