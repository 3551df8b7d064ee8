"""All groups of this gateway: one `HostedGroup` and its driver for each, within the limits."""

import contextlib
import random
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

import structlog
import trio

from coordinator.engine import GroupEngine
from coordinator.group import load
from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.load import (
    has_adoption,
    has_group,
    has_members,
    overrides_in,
    release_in,
)
from coordinator.group.state import GroupState
from coordinator.handlers.group_configs import KEYS
from coordinator.handlers.group_configs import describe as describe_configs
from coordinator.interface.events import ClaimReceived, ConfigsReceived, LeaveGroupReceived, Leaver
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import ConfigView, GroupView, Reply
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.batches import batches, in_steps
from gateway.cluster.shared_lookups import SharedLookups
from gateway.events.group_events import GroupLoaded
from gateway.groups.configured_releases import ConfiguredReleases
from gateway.groups.glance import Glance
from gateway.groups.group_driver import (
    GroupDriver,
    Services,
    carry_out_now,
    forget_events,
    locate,
)
from gateway.groups.group_limits import TooManyGroups
from gateway.groups.new_protocol import new_protocol_of
from gateway.groups.relayed_calls import RelayedCalls
from gateway.hosting import hold
from gateway.hosting.adoptable import why_not_found
from gateway.hosting.adoption_steps import AdoptionOutcome, Wish
from gateway.hosting.answers import JOINS, GroupApi, Situation
from gateway.hosting.calls import (
    Answer,
    Call,
    Commits,
    MakeRequest,
    Outcome,
    Refused,
    Released,
    Unanswerable,
)
from gateway.hosting.effects import refusal_line
from gateway.hosting.forwarded import Client
from gateway.hosting.group import HostedGroup, watch_occupants
from gateway.hosting.group_release import why_not_released
from gateway.hosting.inputs import Ending, Relayed, Release, Resumed
from gateway.hosting.placing import answer_elsewhere
from gateway.hosting.release_steps import ReleaseOutcome, ReleaseWish
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import HERE, MOVING, Found, Nobody, Occupants, Standing, Verdict
from gateway.hosting.states import AnchorPhase, LogPhase, Mode
from gateway.quotas.owner import Owner
from gateway.quotas.remembered import Remembered
from gateway.state_log.log import StateLogError, StateLogUnreadable
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup

RESUME_RETRY_S = 1.0
"""The delay before an unreadable log is tried again at the start."""
LOOK_FOR_ROOM_S = 1.0
"""How often stalled groups are searched for while no place is left."""
PAUSES_LOOK_S = 1.0
"""How often the clock is read to notice a pause of the process."""
REMEMBERED_MAX = 10_000
"""Groups whose standing in the cluster is remembered."""
SPREAD = 0.2
"""Random share of the interval between an anchor's heartbeats."""
ADOPTION_TIMEOUT_S = 30.0
"""How long a command waits for an adoption. Only one that is undone takes so long."""
RELEASE_TIMEOUT_S = 50.0
"""How long a command waits for a release. Members come with their next heartbeat, seconds later."""
ADOPTIONS_END_TIMEOUT_S, ADOPTIONS_LOOK_S = 3.0, 0.05
"""How long the gateway waits for adoptions when it exits, and how often it looks."""
LEAVE_TIMEOUT_S = 5.0
"""The time for all anchors together to leave when the gateway exits."""

log = structlog.get_logger()


class GroupRefused(Exception):
    """The gateway refuses a request; the situation says which code the client gets."""

    def __init__(self, situation: Situation, why: str) -> None:
        super().__init__(why)
        self.situation = situation
        self.why = why


class GroupFailed(Exception):
    """A bug in the gateway: the request could not even be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdleGroup:
    """What lists show of a hosted group that is only in the log."""

    view: GroupView
    policy: RollMode


class Groups:
    """Makes a group at its first request, and forgets it when nothing of it is in memory."""

    def __init__(self, rules: HostingRules, services: Services) -> None:
        self._rules = rules
        self._services = services
        self._config = rules.config
        self._state_log = services.state_log
        self._journal = services.journal
        self._clock = services.clock
        self._drivers: dict[str, GroupDriver] = {}
        self._standings: Remembered[str, Standing] = Remembered(REMEMBERED_MAX, rules.names)
        self._relayed: WeakValueDictionary[str, RelayedCalls] = WeakValueDictionary()
        """The calls that the cluster answers, by group, for groups with such calls or a driver."""
        self._lookups: SharedLookups[Verdict | None] = SharedLookups()
        self._idle: dict[str, _IdleGroup] = {}
        """Hosted groups of the log that somebody has looked at. Only a driver changes a group, so
        they stay as they are until they have one."""
        self._unresumed: set[str] = set()
        """The groups of the log that may have members, and have not been loaded."""
        self._configured_releases = ConfiguredReleases(
            self.release_to_cluster, self._is_kept_against_setting
        )
        self._resumed = self._left_out = 0
        self._has_begun = False
        self._is_ending = False
        self._look_for_room_ms = 0
        services.limits.hosted.on_refusal = self._make_room
        self._journal.snapshot_of = self._snapshot

    # -- beginning and ending --------------------------------------------------------------------

    async def watch_pauses(self) -> None:
        """Notice pauses of the process until cancelled."""
        while True:
            await trio.sleep(PAUSES_LOOK_S)
            self._services.pauses.observe(self._clock.now_ms())

    async def resume(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load all groups of the log that have members, so that members that died while no gateway
        ran are fenced, and release those that a setting leaves to the cluster. Reports when
        requests may come: the group of a request is loaded first.

        If another gateway takes the log meanwhile, retry: either the log comes back, or this
        gateway is told to end."""
        while True:
            try:
                group_ids = tuple(dict.fromkeys(await self._all_in_log()))
                self._unresumed.update(group_ids)
                self._rules.standing.adopted.update(await self._maybe_adopted())
                break
            except StateLogError as error:
                await self._delay_resuming(error)
        self._has_begun = True
        task_status.started()
        for group_id in tuple(self._unresumed):
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            while group_id in self._unresumed:  # and no request has come
                try:
                    await self._resume_if_live(group_id)
                except StateLogError as error:
                    await self._delay_resuming(error)
        if self._resumed:
            log.info("groups_resumed", groups=self._resumed)
        if self._left_out:
            log.error("groups_left_out", groups=self._left_out, hosted=self._resumed)
        await self._configured_releases.run(group_ids)

    def _is_kept_against_setting(self, group_id: str) -> bool:
        """Whether the group is hosted although `groups_forward` leaves it to the cluster."""
        if self._is_ending or not (self._rules.can_anchor and self._known(group_id).is_configured):
            return False
        return self._may_be_live(group_id) or self.is_adopted(group_id)

    async def _all_in_log(self) -> Collection[str]:
        state_log = self._state_log
        return (
            *await state_log.told_group_ids(),
            *await state_log.group_ids(),
            *await state_log.unreadable_groups(),
        )

    async def _maybe_adopted(self) -> Collection[str]:
        """The groups that may be adopted, as long as they have not been read. Raises
        StateLogError."""
        state_log = self._state_log
        alone = await state_log.configs_alone()
        groups = (each for each in await state_log.group_ids() if each not in alone)
        return (*groups, *await state_log.unreadable_groups())

    async def _resume_if_live(self, group_id: str) -> None:
        """Continue the group's events, and load it if it has members or is being adopted. Raises
        StateLogError."""
        self._journal.take_up(group_id)
        try:
            records = await self._state_log.read(group_id)
            is_live = has_members(records) or has_adoption(records)
            if not load.is_adopted(records):
                self._rules.standing.adopted.discard(group_id)
            if (release := release_in(records)) is not None:
                is_live |= release.is_under_way
                if not release.is_under_way:  # until then its anchor must be taken over
                    self._rules.standing.released.add(group_id)
        except StateLogUnreadable as unreadable:
            log.error("group_unreadable", group_id=group_id, reason=str(unreadable))  # noqa: TRY400
            is_live = False
        if is_live and self._has_room(group_id):
            self.driver(group_id)
        self._unresumed.discard(group_id)

    async def _delay_resuming(self, error: StateLogError) -> None:
        log.warning("resume_delayed", reason=str(error))
        await trio.sleep(RESUME_RETRY_S)

    def _has_room(self, group_id: str) -> bool:
        """A group that is about to change its coordinator needs no room: until it has, the cluster
        must not answer for it."""
        if self._state_log.may_be_moving(group_id):
            return True
        try:
            self._services.limits.hosted.check(None)
        except TooManyGroups:
            self._left_out += 1
            return False
        return True

    def release_waiting(self) -> None:
        """Answer parked requests and park none from now on: the gateway is shutting down."""
        self._is_ending = True
        for driver in tuple(self._drivers.values()):
            driver.feed(Ending())

    async def leave_all(self) -> None:
        """Release all groups, with or without members: their state ends with this process."""
        with trio.move_on_after(LEAVE_TIMEOUT_S) as limit:
            async with trio.open_nursery() as nursery:
                for driver in tuple(self._drivers.values()):
                    nursery.start_soon(driver.leave)
        if limit.cancelled_caught:
            held = sum(driver.group.anchor.is_here for driver in self._drivers.values())
            log.warning("anchors_left_behind", groups=held)

    # -- requests --------------------------------------------------------------------------------

    async def ask(
        self,
        group_id: str,
        make: MakeRequest,
        topic_names: Iterable[str] = (),
        *,
        api: GroupApi = GroupApi.ADMIN,
        owner: Owner | None = None,
    ) -> Reply:
        """Ask the engine of a group that is known to be hosted. `topic_names` are the topics that
        `make` looks up. Raises GroupRefused, GroupFailed."""
        call = Call(
            api=api,
            make=make,
            topic_names=frozenset(topic_names),
            owner=owner,
            is_placed=True,
        )
        return checked(await self.driver(group_id, owner).ask(call))

    async def decide_from_log(self, group_id: str, make: MakeRequest) -> Reply | None:
        """The engine's reply for a group that is not in memory and has no members in the log, at
        the cost of reading it: nothing is loaded, written or told. None if the group itself must be
        asked."""
        engine = await self._engine_in_log(group_id)
        if engine is None:
            return None
        topics = Topics()
        step = engine.handle(make(0, topics), now_ms=self._clock.now_ms(), topics=topics)
        ((_token, reply),) = step.replies
        return reply

    async def _engine_in_log(self, group_id: str) -> GroupEngine | None:
        """The engine of a group that is not in memory and has no members in the log. None for any
        other, or if the log cannot be read."""
        if self._needs_driver(group_id):
            return None
        try:
            records = await self._state_log.read(group_id)
        except StateLogError:
            return None
        if has_members(records) or group_id in self._drivers:  # by now
            return None
        return self._engine(group_id, records)

    async def answer_without_driver(self, group_id: str, call: Call) -> Answer | None:
        """The answer to a call that adds no member, if nothing of the group is in memory and the
        call would change nothing of it. None if the group itself must be asked.

        A group that nobody hosts costs a look at the cluster, if there was none lately, and the
        call that the cluster then answers. It must be in `relaying` before anything else happens.
        """
        if call.api in JOINS or self._needs_driver(group_id):
            return None
        verdict = self._verdict_lately(group_id, call.owner)
        if verdict is None:
            verdict = await self._look_once(group_id, call.owner)
        if verdict is None:
            return None
        if verdict.mode is Mode.HOSTED:
            return None if verdict.has_anchor else await self._refusal_from_log(group_id, call)
        answer = answer_elsewhere(verdict, call.api)
        self._services.counts.note_answer(answer)
        return answer

    def _needs_driver(self, group_id: str) -> bool:
        """Whether anything of the group is in memory, or has to be loaded."""
        return group_id in self._drivers or group_id in self._unresumed

    async def _look_once(self, group_id: str, owner: Owner | None) -> Verdict | None:
        """The verdict by a look at the cluster. None if the group has got a driver, which has
        looked itself, or will."""
        verdict = await self._lookups.run(group_id, partial(self._look, group_id, owner))
        return None if self._needs_driver(group_id) else verdict

    async def _look(self, group_id: str, owner: Owner | None) -> Verdict | None:
        found = await self._services.look.look(group_id)
        if self._needs_driver(group_id):
            return None
        verdict = self._verdict_on(group_id, found, owner)
        watch_occupants(self._rules.watched, group_id, found, verdict)
        return verdict

    async def _refusal_from_log(self, group_id: str, call: Call) -> Answer | None:
        """What the engine refuses, by the log. None if it would change the group, as a commit does
        that is stored."""
        if isinstance(call, Commits) and not all(item.has_member for item in call.items):
            return None  # only a member's commit can be refused
        if call.is_at_coordinator is None:
            call.is_at_coordinator = await locate(self._services, group_id, call)
        if not call.is_at_coordinator:
            is_known = call.is_at_coordinator is not None
            situation = Situation.NOT_AT_COORDINATOR if is_known else Situation.COORDINATOR_UNKNOWN
            refused = Refused(situation, situation.value)
            self._services.counts.note_answer(refused)
            return refused
        engine = await self._engine_in_log(group_id)
        if engine is None:
            return None
        topics, now_ms = Topics(), self._clock.now_ms()
        replies: dict[Token, Reply] = {}
        for item in call.items:
            if item.make is not None:
                item.event = item.make(item.token, topics)
            assert item.event is not None
            step = engine.handle(item.event, now_ms=now_ms, topics=topics)
            ((_token, reply),) = step.replies
            if step.records or (isinstance(call, Commits) and not reply.error):
                return None
            replies[item.token] = reply
        for item in call.items:
            if (reply := replies[item.token]).why:
                line = refusal_line(group_id, item, reply)
                carry_out_now(line, group_id, self._journal)
        if isinstance(call, Commits):
            return {token: Outcome(verdict=reply) for token, reply in replies.items()}
        return replies[call.token]

    def relaying(self, group_id: str, call: Call) -> AbstractContextManager[None]:
        """While the cluster answers the call, the group is not adopted."""
        return self._relayed_calls(group_id).under_way(call)

    def note_relayed(self, group_id: str, client: Client, request: Struct, answer: Struct) -> None:
        """Learn from what the cluster has answered. Only a group that may be adopted needs a driver
        for it."""
        relayed = Relayed(client, request, answer)
        if group_id in self._drivers or self._may_adopt(group_id, answer):
            self.driver(group_id, client.owner).feed(relayed)
        else:
            now_ms = self._clock.now_ms()
            self._rules.watched.relayed(group_id, client, request, answer, now_ms)

    def _may_adopt(self, group_id: str, answer: Struct) -> bool:
        """Whether this answer may be a reason to adopt the group."""
        standing = self._known(group_id)
        is_reason = group_id not in self._unresumed and standing.invites_adoption(answer)
        return is_reason and standing.may_be_adopted(self._clock.now_ms())

    def _relayed_calls(self, group_id: str) -> RelayedCalls:
        calls = self._relayed.get(group_id)
        if calls is None:
            calls = self._relayed[group_id] = RelayedCalls()
        return calls

    async def release(self, group_id: str) -> None:
        """Have the anchor leave an empty group. Raises GroupRefused."""
        answer = await self.driver(group_id).ask(Call(api=GroupApi.ADMIN, is_placed=True))
        if not isinstance(answer, Released):
            checked(answer)

    def _make_room(self) -> None:
        """Dissolve stalled groups: a client that only ever joins, under many group ids and with the
        longest session, must not shut out other clients."""
        now_ms = self._clock.now_ms()
        if now_ms < self._look_for_room_ms:
            return
        self._look_for_room_ms = now_ms + round(LOOK_FOR_ROOM_S * 1000)
        for group_id, driver in self._drivers.items():
            if driver.group.engine.has_stalled(now_ms):
                self._services.nursery.start_soon(self._dissolve, group_id, driver)

    async def _dissolve(self, group_id: str, driver: GroupDriver) -> None:
        """Remove all members of a classic group, as if each had left."""
        log.warning("group_dissolved", group_id=group_id, reason="no member got past joining")
        group = driver.group.engine.core.state.group
        if isinstance(group, ClassicGroup):
            leavers = (
                *(
                    Leaver(member_id=each, instance_id=member.instance_id)
                    for each, member in group.members.items()
                ),
                *(Leaver(member_id=each) for each in group.pending_ids),
            )
            with contextlib.suppress(GroupRefused, GroupFailed):
                await self.ask(
                    group_id, lambda token, _: LeaveGroupReceived(token=token, members=leavers)
                )

    # -- who answers -----------------------------------------------------------------------------

    def is_live(self, group_id: str) -> bool:
        """Whether the group has members here."""
        driver = self._drivers.get(group_id)
        return driver is not None and driver.group.is_live

    def _may_be_live(self, group_id: str) -> bool:
        """Whether the group has members here, or may have: its log is being read, or cannot be, or
        it changes its coordinator."""
        driver = self._drivers.get(group_id)
        if driver is None:
            return self.is_moving(group_id)
        is_unread = driver.group.engine.phase in (LogPhase.LOADING, LogPhase.UNREADABLE)
        return is_unread or driver.group.is_live or driver.group.is_moving

    def is_held(self, group_id: str) -> bool:
        """Whether this gateway has an anchor for the group, Stable or not."""
        driver = self._drivers.get(group_id)
        return driver is not None and driver.group.anchor.is_here

    def is_ours(self, told: DescribedGroup) -> bool:
        """Whether the group's only member in the cluster is an anchor with our state log."""
        return self._known(told.group_id).is_ours(told)

    def belongs_to_cluster(self, group_id: str) -> bool:
        """Whether the cluster answers for the group, as far as known."""
        return not self._may_be_live(group_id) and self._known(group_id).is_forwarded

    async def is_forwarded(self, group_id: str, owner: Owner) -> bool:
        """Whether the cluster answers for the group, by a look that begins now. False while an
        anchor is looked for that has to leave. `owner`: whose request names the group."""
        driver = self._drivers.get(group_id)
        if driver is not None and driver.group.release.seeks_anchor:
            return False
        found = await self._services.look.look(group_id)
        return self._verdict_on(group_id, found, owner).mode is Mode.FORWARDED

    async def verdicts(
        self, group_ids: Iterable[str], owner: Owner | None = None
    ) -> dict[str, Verdict]:
        """Who answers for each group, for requests that cannot add a member. A group with members
        here stays here; unknown groups are looked up together. `owner`: whose request it is."""
        verdicts: dict[str, Verdict] = {}
        for some in batches(tuple(dict.fromkeys(group_ids))):
            unknown = []
            async for group_id in in_steps(some):
                verdict = self._verdict_lately(group_id, owner)
                if verdict is None:
                    unknown.append(group_id)
                else:
                    verdicts[group_id] = verdict
            looks = await self._services.look.look_at(unknown)
            async for group_id, found in in_steps(looks.items()):
                verdicts[group_id] = self._verdict_on(group_id, found, owner)
            await trio.lowlevel.checkpoint()
        return verdicts

    def _verdict_lately(self, group_id: str, owner: Owner | None) -> Verdict | None:
        if self.is_live(group_id):
            return HERE
        if self.is_moving(group_id):
            return MOVING
        return self._standing(group_id, owner).lately(self._clock.now_ms())

    def _verdict_on(self, group_id: str, found: Found, owner: Owner | None) -> Verdict:
        if self.is_live(group_id):  # by now
            return HERE
        if self.is_moving(group_id):
            return MOVING
        standing = self._standing(group_id, owner)
        verdict = standing.take(found, self._clock.now_ms(), is_held=self.is_held(group_id))
        for effect in standing.take_outbox():
            carry_out_now(effect, group_id, self._journal, owner)
        if standing.is_left and verdict.has_anchor:
            self.driver(group_id, owner).feed(Release(ReleaseWish()))
        return verdict

    @property
    def may_answer(self) -> bool:
        """Whether the groups' decisions may be told: false once another gateway may own the log."""
        return self._state_log.may_answer

    # -- adoption --------------------------------------------------------------------------------

    async def adopt(self, group_id: str, *, dry_run: bool = False) -> AdoptionOutcome:
        """Adopt a live group of the cluster, or say why that is not possible, member by member. A
        group without members there is marked: it stays hosted, or is from its next join on. With
        `dry_run` nothing is begun, and no reason means that it is possible now."""
        reasons = self._why_never(group_id)
        if self.is_moving(group_id):  # the wish joins those that it has already
            reasons = ("its adoption is under way",) if dry_run else ()
        elif self.is_live(group_id) and not reasons:
            return await self._mark(group_id, dry_run=dry_run)
        elif not reasons:
            found = await self._services.look.look(group_id)
            if self.is_live(group_id) or isinstance(found, Nobody) or self._is_held_here(found):
                return await self._mark(group_id, dry_run=dry_run)
            watched, now_ms = self._rules.watched.group(group_id), self._clock.now_ms()
            reasons = why_not_found(found, watched, self._config, now_ms)
        if dry_run or reasons:
            return AdoptionOutcome(group_id=group_id, is_adopted=False, reasons=reasons)
        with trio.move_on_after(ADOPTION_TIMEOUT_S):
            return await self.driver(group_id).adopt(Wish())
        return AdoptionOutcome.refused(
            group_id,
            f"it has not ended in {ADOPTION_TIMEOUT_S:.0f} s, and goes on;"
            " groupferry events tells how it ends",
        )

    def is_adopted(self, group_id: str) -> bool:
        """Whether the group is hosted also while it is empty, until an operator releases it."""
        return self._known(group_id).is_adopted

    def _is_held_here(self, found: Found) -> bool:
        """Whether an anchor of this gateway is alone in the group."""
        return (
            isinstance(found, Occupants)
            and found.anchored is not None
            and self.is_ours(found.anchored)
        )

    async def _mark(self, group_id: str, *, dry_run: bool) -> AdoptionOutcome:
        """Have a group without members in the cluster hosted until it is released."""
        if not (dry_run or self.is_adopted(group_id)):
            try:
                reply = await self.ask(group_id, lambda token, _: ClaimReceived(token=token))
            except GroupRefused as refused:
                return AdoptionOutcome.refused(group_id, refused.why)
            if reply.error:
                return AdoptionOutcome.refused(group_id, f"{reply.why}: try again")
            self._known(group_id).forget("it was adopted")
        return AdoptionOutcome(group_id=group_id, is_adopted=False, is_marked=True)

    def is_moving(self, group_id: str) -> bool:
        """Whether the group may be about to change its coordinator."""
        if group_id in self._unresumed:
            return self._state_log.may_be_moving(group_id)
        driver = self._drivers.get(group_id)
        return driver is not None and driver.group.is_moving

    async def end_adoptions(self) -> None:
        """Let adoptions end that are nearly done. The next process finds the others in its log."""
        with trio.move_on_after(ADOPTIONS_END_TIMEOUT_S):
            while self._rules.adopting:
                await trio.sleep(ADOPTIONS_LOOK_S)

    def _why_never(self, group_id: str) -> tuple[str, ...]:
        """Why the group cannot be adopted, whoever is in it."""
        if not group_id:
            return ("the group id is empty",)
        # Adopting a group that only a pattern has hosted marks it, except where all are hosted.
        is_kept = self.is_adopted(group_id) or not self._rules.can_anchor
        if self.is_live(group_id) and is_kept:
            return ("it is hosted already",)
        if not self._rules.can_anchor:
            return ("the embedded cluster cannot hold anchors",)
        if self._rules.standing.is_removing:
            return ("the gateway is being removed",)
        if self._rules.standing.adoption == "never":
            return ("as configured (groups_adopt = never)",)
        if self._known(group_id).is_configured:
            return ("as configured (groups_forward)",)
        return ()

    # -- release ---------------------------------------------------------------------------------

    async def release_to_cluster(self, group_id: str, *, dry_run: bool = False) -> ReleaseOutcome:
        """Give a group back to the cluster, or say why that is not possible, member by member.
        With `dry_run` nothing is begun, and no reason means that it is possible now."""
        reasons = await self._why_kept(group_id)
        if reasons:
            return ReleaseOutcome.refused(group_id, *reasons)
        wish = ReleaseWish(await new_protocol_of(self._services.cluster, group_id))
        if dry_run:
            driver = None if self.is_moving(group_id) else self._loaded(group_id)
            if driver is not None:
                reasons = why_not_released(driver.group.engine.core.state, wish.new_protocol)
            return ReleaseOutcome.refused(group_id, *reasons)
        with trio.move_on_after(RELEASE_TIMEOUT_S):
            return await self.driver(group_id).release(wish)
        return ReleaseOutcome.refused(
            group_id,
            f"it has not ended in {RELEASE_TIMEOUT_S:.0f} s, and goes on: a member has neither"
            " rejoined nor left; groupferry events tells how it ends",
        )

    async def _why_kept(self, group_id: str) -> tuple[str, ...]:
        if not group_id:
            return ("the group id is empty",)
        if not self._rules.can_anchor:
            return ("the embedded cluster cannot hold anchors",)
        if self.is_moving(group_id):
            return ()  # the wish joins a release that is under way
        if self._known(group_id).is_released:
            return ("it has been released already",)
        if self.belongs_to_cluster(group_id) and not self.is_adopted(group_id):
            return ("the cluster serves it already",)
        if not (self.is_live(group_id) or self.is_held(group_id) or await self.knows(group_id)):
            return ("the gateway does not host a group of this name: see groupferry groups",)
        return ()

    # -- policy ----------------------------------------------------------------------------------

    async def set_policy(self, group_id: str, policy: RollMode, *, dry_run: bool) -> str:
        """Let operators decide how the migration of a group goes on. Returns why not; empty if it
        is so, or would be. Raises StateLogError."""
        if not group_id:
            return "the group id is empty"
        native = 0
        is_here = self.is_live(group_id) or await self.knows(group_id)
        if self.belongs_to_cluster(group_id) or not is_here:
            if self.is_moving(group_id):
                return "it changes its coordinator: try again"
            found = await self._services.look.look(group_id)
            if why := hold.why_not_set(found, policy):
                return why
            native = found.native if isinstance(found, Occupants) else 0
        try:
            reply = await self.ask(
                group_id,
                lambda token, _: ConfigsReceived(
                    token=token, policy=policy, native_members=native, validate_only=dry_run
                ),
            )
        except GroupRefused as refused:
            return refused.why
        return reply.why

    async def announce_roll(self, group_id: str, *, is_over: bool, dry_run: bool) -> str:
        """Let operators say that the members of a group are about to be restarted, or that they
        have been. Returns why not, as `set_policy` does. Raises StateLogError."""
        if not group_id:
            return "the group id is empty"
        if self.belongs_to_cluster(group_id):
            return "the cluster serves it: only the members of a hosted group are replaced in place"
        if not (self.is_live(group_id) or await self.knows(group_id)):
            return "the gateway does not host a group of this name: see groupferry groups"
        try:
            reply = await self.ask(
                group_id,
                lambda token, _: ConfigsReceived(
                    token=token, announces_roll=not is_over, validate_only=dry_run
                ),
            )
        except GroupRefused as refused:
            return refused.why
        return reply.why

    # -- removal ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def taking_none(self) -> Iterator[None]:
        """Leave every group to the cluster during the block that is not hosted before."""
        rules = self._rules.standing
        rules.is_removing = True
        try:
            yield
        finally:
            rules.is_removing = False

    def hosted_ids(self) -> Collection[str]:
        """The groups that have members or an anchor here, or may have once they are loaded."""
        return self._unresumed | {
            each
            for each in self._drivers
            if self.is_live(each) or self.is_held(each) or self.is_moving(each)
        }

    # -- views -----------------------------------------------------------------------------------

    @property
    def is_resumed(self) -> bool:
        """Whether every group of the log that may have members has been loaded."""
        return self._has_begun and not self._unresumed

    def glance(self, group_id: str) -> Glance:
        """What is known of a group, known or not, without asking cluster or log."""
        driver = self._drivers.get(group_id)
        verdict = self._verdict_shown(group_id, self._known(group_id))
        is_loaded = driver is not None and driver.group.engine.is_loaded
        release = None if driver is None else driver.group.release.stage
        state = driver.group.engine.core.state if driver is not None and is_loaded else None
        return Glance(
            group_id=group_id,
            verdict=verdict,
            state=state,
            policy=self._policy(group_id, state),
            topics=driver.group.engine.topics if driver is not None else Topics(),
            anchor=AnchorPhase.ABSENT if driver is None else driver.group.anchor.phase,
            anchor_why="" if driver is None else driver.group.why_not_held,
            is_adopted=self.is_adopted(group_id),
            is_adopting=self.is_moving(group_id) and release is None,
            adoption=None if driver is None else driver.group.adoption.stage,
            release=release,
            release_obstacle=self._configured_releases.obstacles.get(group_id, ""),
            watched=self._rules.watched.group(group_id),
        )

    def _verdict_shown(self, group_id: str, standing: Standing) -> Verdict:
        if self.is_live(group_id):
            return HERE
        if standing.is_left and standing.verdict.mode is Mode.UNKNOWN:
            return Verdict(Mode.FORWARDED, standing.why_left)
        return standing.verdict

    def _policy(self, group_id: str, state: GroupState | None) -> RollMode:
        if state is not None:
            overrides = state.config_overrides
        else:
            overrides = self._state_log.config_overrides(group_id) or {}
        return self._rules.config_of(group_id).roll_policy.overridden(overrides).mode

    def state_of(self, group_id: str) -> str:
        """The state of a group in memory, in Kafka's words; "Empty" for any other."""
        driver = self._drivers.get(group_id)
        match None if driver is None else driver.group.engine.core.state.group:
            case ClassicGroup() as group:
                return group.phase
            case ConsumerGroup() as group:
                return group.state
            case None:
                return "Empty"

    def subscribed_topics(self, group_id: str) -> Collection[str]:
        """The topics that members of a group in memory subscribe to, as far as known."""
        driver = self._drivers.get(group_id)
        return () if driver is None else driver.group.engine.core.subscribed_topics()

    def ids_here(self) -> Collection[str]:
        """The groups in memory, and the forwarded ones."""
        relayed = (each for each, standing in self._standings.items() if standing.is_forwarded)
        return {*self._drivers, *relayed}

    async def all_ids(self) -> Collection[str]:
        """All groups that the gateway knows: hosted and forwarded ones. Raises StateLogError."""
        return {*await self.group_ids(), *self.ids_here()}

    def topic_names(self) -> Set[str]:
        """The topics that hosted groups have recently referred to."""
        return frozenset().union(*(driver.topics.names for driver in self._drivers.values()))

    async def view(self, group_id: str) -> tuple[GroupView, Topics] | None:
        """A hosted group as admin tools see it, with its topics; None if it does not exist.

        Raises StateLogError.
        """
        if not await self.knows(group_id):
            return None
        if (driver := self._loaded(group_id)) is not None:
            work = driver.group.engine
            return work.core.describe(work.topics), work.topics
        if group_id in self._drivers and self._drivers[group_id].group.engine.is_loading:
            raise StateLogError("the group is still being loaded")
        return (await self._read(group_id)).describe(Topics()), Topics()

    async def summary(self, group_id: str) -> GroupView | None:
        """A hosted group without its members, None if it is unknown. Raises StateLogError."""
        if (driver := self._loaded(group_id)) is not None:
            core = driver.group.engine.core
            return None if core.state.group is None else core.summarize()
        idle = await self._idle_group(group_id)
        return None if idle is None else idle.view

    async def mark(self, group_id: str) -> Hashable:
        """What equals an earlier mark of the group as long as it is shown in lists as it was then.
        Costs less than to show it. Raises StateLogError."""
        driver = self._drivers.get(group_id)
        standing = self._standings.get(group_id) if driver is None else driver.group.standing
        verdict = None if standing is None else self._verdict_shown(group_id, standing)
        shown: object = None
        if driver is not None:
            shown = driver.revision
        elif verdict is None or verdict.mode is not Mode.FORWARDED:
            shown = await self._idle_group(group_id)
        members = self._rules.watched.count_members(group_id)
        return shown, verdict, self.is_adopted(group_id), self.is_moving(group_id), members

    async def _idle_group(self, group_id: str) -> "_IdleGroup | None":
        """A group as the log has it, None if it is unknown. Raises StateLogError."""
        idle = self._idle.get(group_id)
        if idle is None:
            records = await self._state_log.read(group_id)
            if not has_group(records):
                return None
            engine = self._engine(group_id, records)
            policy = self._policy(group_id, engine.state)
            idle = _IdleGroup(view=engine.summarize(), policy=policy)
            if group_id not in self._drivers:
                self._idle[group_id] = idle
        return idle

    async def knows(self, group_id: str) -> bool:
        """Whether the hosted group exists, even if empty. Raises StateLogError."""
        if (driver := self._loaded(group_id)) is not None:
            return driver.group.engine.core.state.group is not None
        return has_group(await self._state_log.read(group_id))

    async def configs(self, group_id: str) -> tuple[ConfigView, ...]:
        """The group's configs; the group need not exist. Raises StateLogError."""
        if (driver := self._loaded(group_id)) is not None:
            return driver.group.engine.core.describe_configs()
        return describe_configs(overrides_in(await self._state_log.read(group_id)), self._config)

    async def group_ids(self) -> tuple[str, ...]:
        """All readable groups in memory or in the log. Raises StateLogError."""
        unreadable = await self._state_log.unreadable_groups()
        known = dict.fromkeys((*self._drivers, *await self._state_log.group_ids()))
        return tuple(each for each in known if each not in unreadable)

    async def idle_group_ids(self) -> tuple[str, ...]:
        """The groups in the log that are not in memory. Raises StateLogError."""
        group_ids = await self._state_log.group_ids()
        return tuple(each for each in group_ids if each not in self._drivers)

    async def configs_alone(self) -> Set[str]:
        """The groups that do not exist but have configs. Raises StateLogError."""
        return await self._state_log.configs_alone()

    def quiet_ms(self, group_id: str) -> int:
        """How long ago the group or its configs changed last, also in an earlier process."""
        return self._journal.quiet_ms(group_id)

    async def forget_events(self) -> None:
        """Forget the events of deleted groups that could not do so. Raises StateLogError."""
        kept = {*await self._state_log.group_ids(), *await self._state_log.unreadable_groups()}
        for group_id in await self._state_log.told_group_ids():
            if group_id not in kept and group_id not in self._drivers:
                await forget_events(group_id, self._journal, self._state_log)

    async def groups_with_configs(self) -> tuple[str, ...]:
        """The groups that override some config. Raises StateLogError."""
        found = []
        for group_id in await self.group_ids():
            await trio.lowlevel.checkpoint()  # the log may have thousands of groups
            if overrides_in(await self._state_log.read(group_id)).keys() & KEYS.keys():
                found.append(group_id)
        return tuple(found)

    def _loaded(self, group_id: str) -> GroupDriver | None:
        """The group's driver, None if only the log has the group.

        DEV D69: while a group is being loaded, the log describes it, so that one group does not
        hold up a list of all groups. Raises StateLogError if another gateway may own the log.
        """
        if not self.may_answer:
            raise StateLogError("another gateway may own the state log")
        driver = self._drivers.get(group_id)
        return driver if driver is not None and driver.group.engine.is_loaded else None

    async def _read(self, group_id: str) -> GroupEngine:
        return self._engine(group_id, await self._state_log.read(group_id))

    def _engine(self, group_id: str, records: Sequence[DurableRecord]) -> GroupEngine:
        engine = GroupEngine(group_id, self._rules.config_of(group_id))
        engine.load(records, now_ms=self._clock.now_ms())
        return engine

    # -- the tables ------------------------------------------------------------------------------

    def driver(self, group_id: str, owner: Owner | None = None) -> GroupDriver:
        """The driver of a group; it is kept as long as anything of the group is in memory.
        `owner`: whose request names the group."""
        driver = self._drivers.get(group_id)
        if driver is None:
            self._idle.pop(group_id, None)
            group = HostedGroup(
                self._standing(group_id, owner),
                self._rules,
                spread=random.uniform(1 - SPREAD, 1 + SPREAD),  # noqa: S311
            )
            driver = GroupDriver(
                group,
                self._services,
                relayed=self._relayed_calls(group_id),
                idle=self._forget,
                owner=owner,
            )
            self._drivers[group_id] = driver
            if group_id in self._unresumed and self._has_room(group_id):
                driver.feed(Resumed(self._state_log.may_be_moving(group_id)))
                self._resumed += 1
            self._unresumed.discard(group_id)
            if self._is_ending:
                driver.feed(Ending())
        return driver

    def _snapshot(self, group_id: str) -> GroupLoaded | None:
        """A hosted group as its lines have told it; None if nothing of it is in memory."""
        driver = self._drivers.get(group_id)
        return None if driver is None else driver.snapshot()

    def in_memory(self, group_id: str) -> GroupDriver | None:
        """The driver of a group if anything of the group is in memory."""
        return self._drivers.get(group_id)

    def _forget(self, group_id: str) -> None:
        if not self._is_ending:
            self._drivers.pop(group_id, None)

    def _known(self, group_id: str) -> Standing:
        """What is known of a group in the cluster."""
        if (driver := self._drivers.get(group_id)) is not None:
            return driver.group.standing
        return self._standings.get(group_id) or Standing(group_id, self._rules.standing)

    def _standing(self, group_id: str, owner: Owner | None) -> Standing:
        """The same to be remembered. Of too many the oldest is forgotten, and asked for again when
        needed."""
        standing = self._known(group_id)
        if group_id not in self._drivers:
            self._standings.put(group_id, standing, owner)
        return standing


def checked(answer: Answer) -> Reply:
    """The engine's reply. Raises GroupRefused, GroupFailed for anything else."""
    if isinstance(answer, Refused):
        raise GroupRefused(answer.situation, answer.why)
    if isinstance(answer, Unanswerable):
        raise GroupFailed
    if isinstance(answer, Reply):
        return answer
    raise TypeError(f"{answer} is no reply of the engine")
