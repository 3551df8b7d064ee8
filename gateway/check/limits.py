"""Limits of the brokers that members meet when their group is hosted, and after it went back."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from gateway.check.finding import Finding, Result, works
from gateway.cluster.access import Access
from gateway.cluster.broker_configs import cluster_numbers
from gateway.cluster.broker_connection import BrokerConnection

SUBJECT = "limits"

ANCHOR_SESSIONS_MS = (60_000, 45_000, 30_000, 10_000)
SHORT_RETENTION_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRule:
    """A config of brokers that can be in the gateway's way."""

    config: str
    fits: Callable[[int], bool]
    effect: str
    remedy: str


RULES = (
    ConfigRule(
        config="group.min.session.timeout.ms",
        fits=lambda value: value <= ANCHOR_SESSIONS_MS[0],
        effect="the gateway's own member of each hosted group is refused",
        remedy="at most 60000",
    ),
    ConfigRule(
        config="group.max.session.timeout.ms",
        fits=lambda value: value >= ANCHOR_SESSIONS_MS[-1],
        effect="the gateway's own member of each hosted group is refused",
        remedy="at least 10000",
    ),
    ConfigRule(
        config="group.initial.rebalance.delay.ms",
        fits=lambda value: value <= ANCHOR_SESSIONS_MS[-1],
        effect="the first consumer of an empty hosted group waits that long",
        remedy="the default of 3000, or less",
    ),
    ConfigRule(
        config="group.max.size",
        fits=lambda value: value > 1,
        effect="released groups with more members are refused by the cluster",
        remedy="at least the members of the largest group, and one",
    ),
    ConfigRule(
        config="offsets.retention.minutes",
        fits=lambda value: value >= SHORT_RETENTION_MINUTES,
        effect="a group that is empty for that long after its release loses its offsets",
        remedy="the default of 10080, seven days",
    ),
)


async def check_limits(connection: BrokerConnection, access: Access) -> AsyncIterator[Finding]:
    """A finding for each limit that is in the way. Raises UpstreamError."""
    names = [rule.config for rule in RULES]
    configs: Mapping[str, int] = await cluster_numbers(connection, access, names)
    if not configs:
        yield Finding(
            subject=SUBJECT,
            result=Result.UNKNOWN,
            detail="no broker reveals its configs",
            effect="limits that differ from Kafka's defaults show only when they are met",
            remedy="DESCRIBE_CONFIGS on the cluster",
        )
        return
    bad = [rule for rule in RULES if rule.config in configs and not rule.fits(configs[rule.config])]
    for rule in bad:
        yield Finding(
            subject=SUBJECT,
            result=Result.LIMITED,
            detail=f"{rule.config} is {configs[rule.config]}",
            effect=rule.effect,
            remedy=f"{rule.config}: {rule.remedy}",
        )
    if not bad:
        known = ", ".join(f"{name}={configs[name]}" for name in names if name in configs)
        yield works(SUBJECT, known)
