"""The hold of a group that the cluster serves (DEV D74): no more native members than an operator
allows."""

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.replies import Reply
from coordinator.interface.roll_policy import RollPolicy
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import Call, Refused
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, LookupOutcome


def may_be_held(call: Call, config: GroupConfig) -> bool:
    """Whether the call may be one native member too many, so that the cluster must say who is in
    the group."""
    if call.api is not GroupApi.CONSUMER_JOIN:
        return False
    return call.overrides is None or _policy(call, config).native_members_max is not None


def refusal(call: Call, config: GroupConfig, outcome: LookupOutcome) -> Reply | Refused | None:
    """Why the cluster must not get the call; None if it may."""
    if not may_be_held(call, config):
        return None
    if call.overrides is None:
        reason = "the state log does not say whether an operator holds the group"
        return Refused(RefusalReason.LOG_NOT_OURS, reason)
    match outcome, call.event:
        case LookupFailed(reason), _:
            reason = (
                f"an operator holds the group, and the cluster does not say who is in it: {reason}"
            )
            return Refused(RefusalReason.HOLDER_UNKNOWN, reason)
        case LiveMembers() as there, ConsumerHeartbeatReceived() as event:
            has_classic = len(there.client_ids) > there.native
            policy = _policy(call, config)
            error = policy.refusal_of_native(there.native, has_classic=has_classic)
            return None if error is None or _is_in(there, event) else event.refuse(error)
        case _:
            return None


def _policy(call: Call, config: GroupConfig) -> RollPolicy:
    return config.roll_policy.overridden(call.overrides or {})


def _is_in(there: LiveMembers, event: ConsumerHeartbeatReceived) -> bool:
    """Whether the joiner takes its own place, or that of its instance."""
    return any(not ids.isdisjoint((event.member_id, event.instance_id)) for ids in there.native_ids)
