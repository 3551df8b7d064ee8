"""An operator holds a group that the cluster serves (DEV D74)."""

import pytest

from coordinator.interface.roll_policy import NATIVE_MEMBERS_MAX, NO_LIMIT
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Call, Forwarded
from gateway.hosting.effects import Describe, Look
from gateway.hosting.inputs import MoveRequested
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, LookupOutcome, NoMembers
from gateway.hosting.move_requests import AdoptRequest
from kafka_codecs.error_codes import ErrorCode
from tests.support.hosted_scene import (
    DIRECT,
    GROUP,
    HostedScene,
    cause_of,
    error_of,
    hosting_rules,
)

HELD = {NATIVE_MEMBERS_MAX: 1}
MIXED = LiveMembers("consumer", ("c", "n"), native_ids=(frozenset({"n", "i"}),))
NATIVE = LiveMembers("consumer", ("n",), native_ids=(frozenset({"n"}),))


def forwarded_group(outcome: LookupOutcome, *, forward: tuple[str, ...] = ()) -> HostedScene:
    """A group of the cluster."""
    on = HostedScene(hosting_rules(forward=forward))
    on.found = outcome
    return on


@pytest.mark.parametrize("forward", [(), (GROUP,)], ids=["occupied", "configured"])
def test_no_further_consumer_switches_in_the_cluster(forward: tuple[str, ...]) -> None:
    """The consumer learns why, and the cluster does not see its join. The log has a line."""
    on = forwarded_group(MIXED, forward=forward)
    refused = on.native("m", overrides=HELD)
    assert error_of(refused) is ErrorCode.GROUP_ID_NOT_FOUND
    assert "holds the migration of this group at 1 member " in getattr(refused.answer, "reason", "")
    assert "request_refused" in on.log_names()


@pytest.mark.parametrize("member_id", ["n", "i"])
def test_a_native_member_of_the_cluster_may_restart(member_id: str) -> None:
    """The gateway recognises it by its member id, or by its instance id."""
    assert isinstance(forwarded_group(MIXED).native(member_id, overrides=HELD).answer, Forwarded)


@pytest.mark.parametrize("outcome", [NATIVE, NoMembers()])
def test_a_group_without_classic_members_is_free(outcome: LookupOutcome) -> None:
    """Its migration is over, or has not begun."""
    on = forwarded_group(outcome, forward=(GROUP,))
    assert isinstance(on.native("m", overrides=HELD).answer, Forwarded)


def test_classic_consumers_come_and_go_while_the_cluster_is_held() -> None:
    """The hold needs no look at the cluster."""
    on = forwarded_group(DIRECT, forward=(GROUP,))
    assert isinstance(on.join("c", overrides=HELD).answer, Forwarded)
    assert isinstance(on.beat("c", 3, overrides=HELD).answer, Forwarded)
    assert on.count(Look) == 0


def test_a_group_may_hold_by_its_name_until_it_is_allowed() -> None:
    """A hosted group may do the same (`groups_hold`)."""
    rules = hosting_rules(forward=(GROUP,), hold=(GROUP,))
    on = HostedScene(rules)
    on.found = DIRECT
    assert error_of(on.native("m")) is ErrorCode.GROUP_ID_NOT_FOUND
    allowed = on.native("m", overrides={NATIVE_MEMBERS_MAX: NO_LIMIT})
    assert isinstance(allowed.answer, Forwarded)


def test_without_a_hold_the_cluster_is_not_asked() -> None:
    """A group that is forwarded by its name costs no look."""
    on = forwarded_group(DIRECT, forward=(GROUP,))
    assert isinstance(on.native("m").answer, Forwarded)
    assert on.count(Look) == 0


@pytest.mark.parametrize(
    ("overrides", "outcome", "cause"),
    [
        (None, MIXED, RefusalReason.LOG_NOT_OURS),
        (HELD, LookupFailed("nobody listens"), RefusalReason.HOLDER_UNKNOWN),
    ],
)
def test_a_join_waits_while_nobody_can_tell(
    overrides: dict[str, int] | None, outcome: LookupOutcome, cause: RefusalReason
) -> None:
    """The client tries again: whether a hold is in force, or who is in the group, is unknown."""
    on = forwarded_group(outcome, forward=(GROUP,))
    assert cause_of(on.native("m", overrides=overrides)) is cause


def test_a_join_waits_for_an_adoption_that_has_only_begun() -> None:
    """The look of that moment is the adoption's. Without a hold the cluster answers."""
    on = forwarded_group(DIRECT)
    on.hold(Describe)
    on.feed(MoveRequested(AdoptRequest()))
    assert cause_of(on.native("m", overrides=HELD)) is RefusalReason.MOVING
    assert isinstance(on.native("m").answer, Forwarded)


def test_a_hosted_group_asks_its_own_engine() -> None:
    """What a look has found of the cluster does not count."""
    on = HostedScene()
    on.native_member()
    joined: Call = on.native("m", overrides=HELD)
    assert error_of(joined) is ErrorCode.NONE
