"""The whole check, at real brokers: what it finds, and that it removes what it makes."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from gateway.check.anchor_trial import SUBJECT as ANCHOR
from gateway.check.apis import RELEASE
from gateway.check.apis import SUBJECT as APIS
from gateway.check.cluster_check import TEMPORARY_PREFIX, check_cluster
from gateway.check.finding import Finding, Result, works
from gateway.check.own_topic import CLOCKS, TOPICS, TRANSACTIONS
from gateway.check.permissions import SUBJECT as PERMISSIONS
from gateway.cluster.access import Access
from gateway.cluster.librdkafka import client_config
from gateway.security import Security, security_of
from gateway.settings_sources import load
from tests.support.kafka_broker import KafkaCluster
from tests.support.releases import with_anchors
from tests.support.secure_kafka import SecureKafka
from tests.support.secure_users import access_of, new_user

pytestmark = pytest.mark.kafka

LIMIT_S = 60


async def findings_at(upstream: tuple[str, int], security: Security | None = None) -> list[Finding]:
    settings = load({"upstream": f"{upstream[0]}:{upstream[1]}"})
    findings: list[Finding] = []
    with trio.fail_after(LIMIT_S):
        await check_cluster(settings, security or security_of(settings), findings.append)
    return findings


def left_behind(config: Mapping[str, Any]) -> set[str]:
    """Topics and groups of the check that the cluster still has."""
    admin = AdminClient(dict(config))
    groups = admin.list_consumer_groups(request_timeout=20).result().valid
    names = {*admin.list_topics(timeout=20).topics, *(group.group_id for group in groups)}
    return {name for name in names if name.startswith(TEMPORARY_PREFIX)}


@with_anchors()
async def test_a_cluster_without_limits_passes_and_nothing_is_left(kafka: KafkaCluster) -> None:
    upstream = kafka.addresses[0]
    findings = await findings_at(upstream)
    assert not [finding for finding in findings if finding.result is Result.FAILS]
    by_subject = {finding.subject for finding in findings if finding.result is Result.WORKS}
    assert {ANCHOR, APIS, PERMISSIONS, TOPICS} <= by_subject
    # Kafka 2.8 without ZooKeeper is a preview that has no transactions yet.
    assert ({TRANSACTIONS, CLOCKS} <= by_subject) == (kafka.release != "2.8")
    anchor = [finding.detail for finding in findings if finding.subject == ANCHOR]
    assert "an outside consumer of the old protocol is refused" in anchor
    takes_natives = works(APIS, RELEASE) in findings
    assert takes_natives == kafka.has_new_protocol, "3.9 only lists its apis"
    assert "taken again after a kill; the predecessor is fenced" in anchor
    config = client_config([upstream], "groupferry-test")
    assert await trio.to_thread.run_sync(partial(left_behind, config)) == set()


async def test_missing_permissions_and_what_cannot_be_deleted_are_named(
    secure_kafka: SecureKafka,
) -> None:
    """A user that may hold groups, but neither make topics nor delete groups."""
    user = await new_user(
        secure_kafka,
        (ResourceType.GROUP, "*", AclOperation.READ),
        (ResourceType.GROUP, "*", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    )
    access: Access = access_of(secure_kafka, user)
    security = Security(own=access)
    findings = await findings_at(secure_kafka.sasl_ssl, security)
    (topics,) = [finding for finding in findings if finding.subject == TOPICS]
    assert topics.result is Result.UNKNOWN
    assert "WRITE, CREATE, DELETE" in topics.detail
    assert not [finding for finding in findings if finding.subject == TRANSACTIONS]
    anchor = [finding.detail for finding in findings if finding.subject == ANCHOR]
    config = client_config([secure_kafka.plain], "groupferry-test")
    (group,) = await trio.to_thread.run_sync(partial(left_behind, config))
    assert anchor[-1].startswith(f"group {group} is left empty, without offsets: without DELETE")
