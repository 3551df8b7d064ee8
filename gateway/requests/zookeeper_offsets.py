"""Offsets of OffsetCommit and OffsetFetch v0, which live in ZooKeeper.

A hosted group has no offsets there: they would be lost to its members. It answers as a cluster
without ZooKeeper does.
"""

from gateway.groups.groups import Groups
from gateway.hosting.answers import GroupApi, RefusalReason, code_for
from gateway.hosting.states import Mode
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.log import StateLogError
from kafka_codecs.error_codes import ErrorCode

FIRST_VERSION_IN_KAFKA = 1
"""The first version of both apis whose offsets live in Kafka."""


async def refusal_code(
    groups: Groups, group_id: str, owner: QuotaKey, api: GroupApi
) -> ErrorCode | None:
    """The error for a request of v0 about this group. None if the cluster answers."""
    try:
        if not groups.drivers.is_held(group_id) and not await groups.drivers.knows(group_id):
            return None
    except StateLogError:
        return code_for(RefusalReason.LOADING, api)
    decision = (await groups.router.find_decisions((group_id,), owner))[group_id]
    match decision.mode:
        case Mode.FORWARDED:
            return None
        case Mode.UNKNOWN:
            return code_for(RefusalReason.HOLDER_UNKNOWN, api)
        case _:
            return ErrorCode.UNSUPPORTED_VERSION
