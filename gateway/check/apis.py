"""Which apis the gateway needs, in which version, and what each is for.

This table is the source of the check and of its page in the documentation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.check.finding import Finding, Result, works
from gateway.cluster.broker_connection import Versions
from gateway.hosting.move_requests import NewProtocol
from kafka_codecs.api_keys import ApiKey

SUBJECT = "apis"
RELEASE = "release of consumers of the new protocol"
_ONLY_CLASSIC = (
    "a group goes back to the cluster only after its last consumer is back on the old protocol"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiNeed:
    """Versions of apis that one ability of the gateway rests on."""

    ability: str
    versions: Mapping[ApiKey, int]
    """The version that the broker must have at least, by api."""
    since: str
    """The first Apache Kafka that has them all."""
    effect: str
    """What is lost without them."""
    is_required: bool = False
    """Whether no group can be hosted without them."""


NEEDS = (
    ApiNeed(
        ability="hosting groups",
        versions={
            ApiKey.JOIN_GROUP: 5,
            ApiKey.SYNC_GROUP: 3,
            ApiKey.HEARTBEAT: 3,
            ApiKey.OFFSET_COMMIT: 7,
            ApiKey.OFFSET_FETCH: 1,
            ApiKey.LEAVE_GROUP: 0,
            ApiKey.DESCRIBE_GROUPS: 0,
            ApiKey.FIND_COORDINATOR: 0,
            ApiKey.METADATA: 1,
        },
        since="2.3",
        effect="the gateway cannot hold a group: without static members it cannot fence others",
        is_required=True,
    ),
    ApiNeed(
        ability="adoption without a rebalance",
        versions={ApiKey.LEAVE_GROUP: 3},
        since="2.4",
        effect="a group is hosted only while it is empty: stop its consumers once",
    ),
    ApiNeed(
        ability="permissions of clients from a description",
        versions={ApiKey.DESCRIBE_GROUPS: 3, ApiKey.METADATA: 8},
        since="2.3",
        effect="the gateway asks with requests that have no effect, one for each operation",
    ),
    ApiNeed(
        ability="topic ids",
        versions={ApiKey.METADATA: 10},
        since="2.8",
        effect="the gateway derives them from names: a recreated topic looks like the old one",
    ),
    ApiNeed(
        ability="exactly-once consumers of hosted groups",
        versions={ApiKey.TXN_OFFSET_COMMIT: 3},
        since="2.5",
        effect="commits in transactions of hosted groups are refused",
    ),
    ApiNeed(
        ability="state in the cluster (state = kafka)",
        versions={
            ApiKey.INIT_PRODUCER_ID: 0,
            ApiKey.ADD_PARTITIONS_TO_TXN: 0,
            ApiKey.END_TXN: 0,
        },
        since="0.11",
        effect="the state log must be a folder (state = sqlite)",
    ),
    ApiNeed(
        ability=RELEASE,
        versions={ApiKey.CONSUMER_GROUP_HEARTBEAT: 0, ApiKey.CONSUMER_GROUP_DESCRIBE: 0},
        since="4.0",
        effect=_ONLY_CLASSIC,
    ),
)


def check_apis(versions: Versions) -> Iterator[Finding]:
    """A finding for each ability."""
    for need in NEEDS:
        missing = [
            f"{key.name} v{version}"
            for key, version in need.versions.items()
            if versions.get(key, (0, -1))[1] < version
        ]
        if not missing:
            yield works(SUBJECT, need.ability)
            continue
        yield Finding(
            subject=SUBJECT,
            result=Result.FAILS if need.is_required else Result.LIMITED,
            detail=f"{need.ability}: no {', '.join(missing)}",
            effect=need.effect,
            remedy=f"a cluster that has them, as Kafka does since {need.since}",
        )


def judge_release(offered: NewProtocol) -> Finding:
    """Whether the cluster takes what it has the apis for."""
    if offered.why_no_natives:
        return Finding(
            subject=SUBJECT,
            result=Result.LIMITED,
            detail=f"{RELEASE}: {offered.why_no_natives}",
            effect=_ONLY_CLASSIC,
            remedy="a cluster with group.version 1, as Kafka has since 4.0",
        )
    if offered.why_not_mixed:
        return Finding(
            subject=SUBJECT,
            result=Result.LIMITED,
            detail=f"{RELEASE}: {offered.why_not_mixed}",
            effect="a group with consumers of both protocols cannot go back to the cluster",
            remedy="set that config to bidirectional, or roll a mixed group to the end",
        )
    return works(SUBJECT, RELEASE)
