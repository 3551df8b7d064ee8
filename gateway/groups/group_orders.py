"""What operators order for a group: to adopt it, to release it, and how its migration continues.

Each order is refused with a reason, tried without effect (`dry_run`), or carried out and awaited.
An order that takes longer than a command waits is still carried out.
"""

import contextlib
from collections.abc import Iterator

import trio

from coordinator.group.state import GroupState
from coordinator.interface.events import ClaimReceived, ConfigsReceived
from coordinator.interface.roll_policy import RollMode
from gateway.groups.coordinator_configs import longest_session_ms_of
from gateway.groups.group_drivers import GroupDrivers, GroupRefused
from gateway.groups.group_work import Services
from gateway.groups.members_away import MembersAway
from gateway.groups.new_protocol import new_protocol_of
from gateway.hosting.adoptable import HOSTED_ALREADY, why_not_found
from gateway.hosting.lookup_outcome import (
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    foreign_kind,
)
from gateway.hosting.move_requests import (
    AdoptionOutcome,
    AdoptRequest,
    NewProtocol,
    ReleaseOutcome,
    ReleaseRequest,
)
from gateway.hosting.release import why_not_released
from gateway.hosting.rules import HostingRules
from kafka_codecs.describe_groups import DescribedGroup

ADOPTION_TIMEOUT_S = 30.0
"""How long a command waits for an adoption. Only one that is undone takes so long."""
RELEASE_TIMEOUT_S = 50.0
"""How long a command waits for a release. Members come with their next heartbeat, seconds later."""
ADOPTIONS_END_TIMEOUT_S, ADOPTIONS_LOOK_S = 3.0, 0.05
"""How long the gateway waits for adoptions when it exits, and how often it looks."""

MOVES = "it changes its coordinator: try again"
NO_ID = "the group id is empty: name a group"
NO_ANCHORS = "the embedded cluster cannot hold anchors: nothing to do"


class GroupOrders:
    """Carries out the orders of operators."""

    def __init__(self, rules: HostingRules, services: Services, drivers: GroupDrivers) -> None:
        self._rules = rules
        self._config = rules.config
        self._services = services
        self._drivers = drivers
        self._clock = services.clock
        self.away = MembersAway(self._state_of)
        services.journal.listen(self.away.observe)

    def _state_of(self, group_id: str) -> GroupState | None:
        """The state in memory, even while it may not be shown."""
        driver = self._drivers.by_id.get(group_id)
        if driver is None or not driver.group.engine.is_loaded:
            return None
        return driver.group.engine.core.state

    async def adopt(self, group_id: str, *, dry_run: bool = False) -> AdoptionOutcome:
        """Adopt a live group of the cluster, or say why that is not possible, member by member. A
        group without members there is marked: it stays hosted, or is from its next join on. With
        `dry_run` nothing is begun, and no reason means that it is possible now."""
        reasons = self._why_never(group_id)
        if self._drivers.is_moving(group_id):  # the request joins those that it has already
            reasons = (MOVES,) if dry_run else ()
        elif self._drivers.is_live(group_id) and not reasons:
            return await self._mark(group_id, dry_run=dry_run)
        elif not reasons:
            outcome = await self._services.cluster_reader.look_up(group_id)
            if (
                self._drivers.is_live(group_id)
                or isinstance(outcome, NoMembers)
                or self._is_held_here(outcome)
            ):
                return await self._mark(group_id, dry_run=dry_run)
            longest_session_ms = await longest_session_ms_of(self._services.cluster, group_id)
            reasons = why_not_found(
                outcome,
                self._rules.watched.group(group_id),
                self._config,
                self._clock.now_ms(),
                longest_session_ms=longest_session_ms,
            )
        if dry_run or reasons:
            return AdoptionOutcome.refuse(group_id, *reasons)
        with trio.move_on_after(ADOPTION_TIMEOUT_S):
            return await self._drivers.driver(group_id).move(AdoptRequest())
        return AdoptionOutcome.refuse(
            group_id,
            f"it has not ended in {ADOPTION_TIMEOUT_S:.0f} s, and continues;"
            " groupferry events tells how it ends",
        )

    def _is_held_here(self, outcome: LookupOutcome) -> bool:
        """Whether an anchor of this gateway is alone in the group."""
        return (
            isinstance(outcome, LiveMembers)
            and outcome.anchored is not None
            and self._drivers.is_ours(outcome.anchored)
        )

    async def _mark(self, group_id: str, *, dry_run: bool) -> AdoptionOutcome:
        """Have a group without members in the cluster hosted until it is released."""
        is_known = await self._is_known(group_id)
        if not (dry_run or self._drivers.is_adopted(group_id)):
            try:
                reply = await self._drivers.ask(
                    group_id, lambda token, _: ClaimReceived(token=token)
                )
            except GroupRefused as refused:
                return AdoptionOutcome.refuse(group_id, refused.reason)
            if reply.error:
                return AdoptionOutcome.refuse(group_id, f"{reply.reason}: try again")
            self._drivers.get_routing(group_id).forget("it was adopted")
        return AdoptionOutcome(group_id=group_id, is_marked=True, is_known=is_known)

    async def _is_known(self, group_id: str) -> bool:
        """Whether the group is known anywhere, as far as the cluster says now."""
        if self._drivers.is_live(group_id) or await self._drivers.knows(group_id):
            return True
        return (await self._services.cluster_reader.find_traces((group_id,))).get(group_id, True)

    def _why_never(self, group_id: str) -> tuple[str, ...]:
        """Why the group cannot be adopted, no matter who is in it."""
        if not group_id:
            return (NO_ID,)
        # Adopting a group that only a pattern has hosted marks it, except where all are hosted.
        is_kept = self._drivers.is_adopted(group_id) or not self._rules.can_anchor
        if self._drivers.is_live(group_id) and is_kept:
            return (HOSTED_ALREADY,)
        if not self._rules.can_anchor:
            return (NO_ANCHORS,)
        if self._rules.is_removing:
            return ("the gateway is being removed: wait until groupferry remove has ended",)
        if self._rules.adoption == "never":
            return ("as configured (groups_adopt = never): set it to manual, and reload (SIGHUP)",)
        if self._drivers.get_routing(group_id).is_configured:
            return (
                "as configured (groups_forward): take the group out of it, and reload (SIGHUP)",
            )
        return ()

    async def release_to_cluster(self, group_id: str, *, dry_run: bool = False) -> ReleaseOutcome:
        """Give a group back to the cluster, or say why that is not possible, member by member.
        With `dry_run` nothing is begun, and no reason means that it is possible now."""
        reasons = await self._why_kept(group_id)
        if reasons:
            return ReleaseOutcome.refuse(group_id, *reasons)
        new_protocol = await new_protocol_of(self._services.cluster, group_id)
        if dry_run:
            return ReleaseOutcome.refuse(group_id, *self._why_not_now(group_id, new_protocol))
        with trio.move_on_after(RELEASE_TIMEOUT_S):
            return await self._drivers.driver(group_id).move(
                ReleaseRequest(new_protocol=new_protocol)
            )
        return ReleaseOutcome.refuse(
            group_id,
            f"it has not ended in {RELEASE_TIMEOUT_S:.0f} s, and continues: a member has neither"
            " rejoined nor left; groupferry events tells how it ends",
        )

    def _why_not_now(self, group_id: str, new_protocol: NewProtocol) -> tuple[str, ...]:
        """Why the group cannot be released as it is, as far as it is in memory."""
        driver = self._drivers.find_loaded(group_id)
        if self._drivers.is_moving(group_id):
            driver = self._drivers.by_id.get(group_id)
            busy = MOVES if driver is None else driver.group.move.why_busy(ReleaseRequest())
            return (busy,) if busy else ()
        if driver is None:
            return ()
        return why_not_released(driver.group.engine.core.state, new_protocol)

    async def _why_kept(self, group_id: str) -> tuple[str, ...]:
        if not group_id:
            return (NO_ID,)
        if not self._rules.can_anchor:
            return (NO_ANCHORS,)
        if self._drivers.is_moving(group_id):
            return ()  # the request joins a release that is under way
        if self._drivers.get_routing(group_id).is_released:
            return ("it has been released already: nothing to do",)
        if self._drivers.belongs_to_cluster(group_id) and not self._drivers.is_adopted(group_id):
            return ("the cluster serves it already: nothing to do",)
        if not (
            self._drivers.is_live(group_id)
            or self._drivers.is_held(group_id)
            or await self._drivers.knows(group_id)
        ):
            return ("the gateway does not host a group of this name: see groupferry groups",)
        return ()

    async def set_policy(self, group_id: str, policy: RollMode, *, dry_run: bool) -> str:
        """Let operators decide how the migration of a group continues. Returns why not; empty if it
        is so, or would be. Raises StateLogError."""
        if not group_id:
            return NO_ID
        native = 0
        is_here = self._drivers.is_live(group_id) or await self._drivers.knows(group_id)
        if self._drivers.belongs_to_cluster(group_id) or not is_here:
            if self._drivers.is_moving(group_id):
                return MOVES
            outcome = await self._services.cluster_reader.look_up(group_id)
            if reason := why_not_set(outcome, policy):
                return reason
            native = outcome.native if isinstance(outcome, LiveMembers) else 0
        try:
            reply = await self._drivers.ask(
                group_id,
                lambda token, _: ConfigsReceived(
                    token=token,
                    policy=policy,
                    native_members=native,
                    native_away=self.away.count(group_id, self._clock.now_ms()),
                    validate_only=dry_run,
                ),
            )
        except GroupRefused as refused:
            return refused.reason
        return reply.reason

    async def announce_roll(self, group_id: str, *, is_over: bool, dry_run: bool) -> str:
        """Let operators say that the members of a group are about to be restarted, or that they
        have been. Returns why not, as `set_policy` does. Raises StateLogError."""
        if not group_id:
            return NO_ID
        if self._drivers.belongs_to_cluster(group_id):
            return (
                "the cluster serves it, and only the members of a hosted group are replaced in"
                " place: groupferry adopt first"
            )
        if not (self._drivers.is_live(group_id) or await self._drivers.knows(group_id)):
            return "the gateway does not host a group of this name: see groupferry groups"
        try:
            reply = await self._drivers.ask(
                group_id,
                lambda token, _: ConfigsReceived(
                    token=token, announces_roll=not is_over, validate_only=dry_run
                ),
            )
        except GroupRefused as refused:
            return refused.reason
        return reply.reason

    @contextlib.contextmanager
    def taking_none(self) -> Iterator[None]:
        """Leave every group to the cluster during the block that is not hosted before."""
        self._rules.is_removing = True
        try:
            yield
        finally:
            self._rules.is_removing = False

    async def end_adoptions(self) -> None:
        """Let adoptions end that are nearly done. The next process finds the others in its log."""
        with trio.move_on_after(ADOPTIONS_END_TIMEOUT_S):
            while self._rules.adopting:
                await trio.sleep(ADOPTIONS_LOOK_S)


def why_not_set(outcome: LookupOutcome, policy: RollMode) -> str:
    """Why a group that the cluster serves cannot get this policy; empty if it can."""
    match outcome:
        case LiveMembers(anchored=DescribedGroup()):
            return "another gateway holds it in the cluster: give the command there"
        case LiveMembers(protocol_type=protocol_type, protocol=protocol) if kind := foreign_kind(
            protocol_type, protocol
        ):
            return f"{kind}, and its members never switch: nothing to do"
        case LiveMembers() if policy is RollMode.PAUSE:
            return "the cluster assigns its partitions, so it can only be held: groupferry hold"
        case LiveMembers(tells_natives=False) if policy is RollMode.HOLD:
            return (
                "the cluster does not say which members are native, as Kafka does since 4.0: stop"
                " the deployment instead"
            )
        case LiveMembers():
            return ""
        case LookupFailed(reason):
            return f"the cluster does not say who is in the group: {reason}: try again"
        case _:
            return (
                "neither the gateway nor the cluster has consumers in a group of this name: see"
                " groupferry groups"
            )
