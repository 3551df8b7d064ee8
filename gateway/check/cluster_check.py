"""All trials, in order: those that only ask first, then those that make something."""

from collections.abc import Callable, Sized
from uuid import uuid4

from gateway.check.anchor_trial import try_anchor
from gateway.check.apis import RELEASE, check_apis, judge_release
from gateway.check.apis import SUBJECT as APIS
from gateway.check.brokers import check_brokers
from gateway.check.finding import Finding, Result, works
from gateway.check.limits import check_limits
from gateway.check.own_topic import own_topic, try_transaction
from gateway.check.permissions import check_permissions
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.cluster import Cluster
from gateway.cluster.librdkafka import client_config
from gateway.groups.new_protocol import new_protocol_of
from gateway.security import Security
from gateway.settings import Settings
from gateway.state_log.kafka.shards import find_writers

TEMPORARY_PREFIX = "groupferry-check-"


async def check_cluster(
    settings: Settings, security: Security, report: Callable[[Finding], None]
) -> None:
    """Report findings about the cluster that these settings name, as they are made. Raises
    UpstreamError if it cannot be reached or is lost meanwhile."""
    access = security.own
    cluster = Cluster(settings.upstream, access=access)
    await cluster.refresh()  # without a task that keeps it up to date
    assert cluster.answered is not None
    report(works("cluster", f"{cluster.cluster_id or 'without an id'}, {_count(cluster.brokers)}"))
    name = TEMPORARY_PREFIX + uuid4().hex[:12]
    async with await BrokerConnection.open(*cluster.answered, access=access) as connection:
        async for finding in check_brokers(cluster.brokers, access):
            report(finding)
        findings = list(check_apis(connection.versions))
        if works(APIS, RELEASE) in findings:
            takes = judge_release(await new_protocol_of(cluster, name))
            findings[findings.index(works(APIS, RELEASE))] = takes
        for finding in findings:
            report(finding)
        topics = [settings.state_topic] if settings.state == "kafka" else []
        ids = [
            name
            for topic in topics
            for name in await find_writers(connection, topic, has_shards=settings.has_shards)
        ]
        if settings.events_topic is not None:
            topics.append(settings.events_topic)
        async for finding in check_permissions(connection, topics, ids, settings.fleet_group):
            report(finding)
        async for finding in check_limits(connection, access):
            report(finding)
        config = client_config(settings.upstream, "groupferry-check", access)
        async with own_topic(connection, config, name, report) as exists:
            if exists:
                await try_transaction(config, name, report)
        if not any(finding.result is Result.FAILS for finding in findings):
            await try_anchor(connection, access, name, report)


def _count(brokers: Sized) -> str:
    return "1 broker" if len(brokers) == 1 else f"{len(brokers)} brokers"
