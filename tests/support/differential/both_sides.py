"""The language of differential scripts: each request goes to a broker and to the gateway.

Members have names. Each side knows the ids, epochs and partitions that they stand for. Every pair
of answers is compared once both have arrived. A request that neither side answers immediately is
parked, and compared later.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import trio

from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.list_groups import ListGroupsRequest
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.commits import commit_of
from tests.support.differential.deviations import (
    Deviation,
    Unlike,
    find_deviation,
    first_error,
    is_shown_on,
)
from tests.support.differential.plain import Plain, differences
from tests.support.differential.profiles import Profile
from tests.support.differential.side import Side
from tests.support.differential.topic_admin import TopicAdmin
from tests.support.group_requests import (
    by_topic_id,
    fetched_topics,
    join_request,
    offset_delete_request,
    sync_request,
)

PARKED_AFTER_S = 0.4
"""A request without an answer from either side within this time counts as parked."""
ANSWER_WITHIN_S = 5.0
"""The longest delay of one side's answer after the other's."""
SETTLE_S = 0.05
"""The time for released answers to arrive."""

LAST_FETCH_VERSION_OF_ONE_GROUP = 7
LAST_LEAVE_VERSION_OF_ONE_MEMBER = 2
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5

Owned = Mapping[str, Iterable[int]]
Make = Callable[[Side], Struct]


class _Told:
    """Stands for the member's last answer."""


TOLD = _Told()
WAITS = {"error_code": "waits"}
"""Stands for a missing answer of one side."""


class Deviated(Exception):
    """An unannounced deviation occurred."""


class Difference(AssertionError):
    """The answers of the two sides differ."""


Both = TypeVar("Both", bound="BothSides")


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request on its way to both sides."""

    what: str
    who: str
    answers: dict[str, Struct | str] = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)
    progress: trio.Event = field(default_factory=trio.Event)
    all_answered: trio.Event = field(default_factory=trio.Event)
    plain: Plain | None = None
    """The answer, once both sides gave the same one."""
    unlike: Unlike | None = None

    @property
    def api(self) -> str:
        """The name of the request's api."""
        return self.what.removeprefix(f"{self.who}: ").partition(" ")[0]


class BothSides:
    """A script's view of the two sides."""

    def __init__(
        self,
        kafka: Side,
        gateway: Side,
        *,
        profile: Profile,
        nursery: trio.Nursery,
        topic_admin: TopicAdmin,
        release: str,
        may_deviate: bool = False,
    ) -> None:
        """`release` is the broker's. `may_deviate`: an unannounced deviation raises Deviated
        instead of Difference."""
        self.sides = (kafka, gateway)
        self.profile = profile
        self._release = release
        self.may_deviate = may_deviate
        self.excuse: Deviation | None = None
        """The deviation that explains a difference now."""
        self.topic_admin = topic_admin
        self.steps = 0
        self.deviations: set[Deviation] = set()
        self.parked: list[Asked] = []
        self._waited: dict[str, Asked] = {}
        self._transcript: list[str] = []
        self._nursery = nursery

    @property
    def transcript(self) -> str:
        """All requests and answers."""
        return "\n".join(self._transcript)

    def is_parked(self, who: str) -> bool:
        return any(asked.who == who for asked in self.parked)

    async def ask(
        self,
        who: str,
        what: str,
        make: Make,
        *,
        version: int | None = None,
        may_wait: bool = False,
        error: int | None = None,
        unlike: Unlike | None = None,
    ) -> Plain:
        """Send a request to both sides. Returns the common answer, or None while it is parked.
        `error` is the code that both must answer, so that a script tests what it intends. Raises
        Difference."""
        asked = Asked(what=f"{who}: {what}", who=who, unlike=unlike)
        self.steps += 1
        for side in self.sides:
            self._nursery.start_soon(self._exchange, asked, side, make, version)
        with trio.move_on_after(PARKED_AFTER_S if may_wait else ANSWER_WITHIN_S):
            await asked.progress.wait()
        if not asked.answers and may_wait:
            await self._probe()
        if not asked.answers and may_wait:
            self._tell(f"{asked.what}\n    waits")
            self.parked.append(asked)
            self._waited[who] = asked
        await self._settle([] if asked in self.parked else [asked])
        if error is not None:
            code = None if asked.plain is None else first_error(asked.plain)
            assert code == error, f"wanted error {error}, both say {code}\n{self.transcript}"
        return asked.plain

    async def answers(self, who: str, *, within_s: float = ANSWER_WITHIN_S) -> Plain:
        """The answer to the member's last parked request, which arrives without another request."""
        asked = self._waited[who]
        with trio.move_on_after(within_s):
            await asked.progress.wait()
        if asked in self.parked:
            await self._settle([asked])
        return asked.plain

    def will_differ(self, who: str, unlike: Unlike) -> None:
        """Announce a deviation in the answer to the member's parked request."""
        self._waited[who].unlike = unlike

    async def sleep(self, seconds: float) -> None:
        """Let time pass on both sides."""
        self._tell(f"-- {seconds} s pass")
        await trio.sleep(seconds)
        await self._settle([])

    async def _probe(self) -> None:
        """An answer to this request shows that earlier requests were handled."""
        for side in self.sides:
            await side.ask("probe", DescribeGroupsRequest(groups=(side.group,)), None)

    def _tell(self, line: str) -> None:
        self._transcript.append(line)

    async def _exchange(self, asked: Asked, side: Side, make: Make, version: int | None) -> None:
        answer = await side.ask(asked.who, make(side), version)
        side.learn(asked.who, answer)
        asked.answers[side.name] = answer
        asked.answered_s[side.name] = trio.current_time()
        asked.progress.set()
        if len(asked.answers) == len(self.sides):
            asked.all_answered.set()

    async def _settle(self, asked: list[Asked]) -> None:
        """Wait for the second answer where one side has answered, and compare."""
        if self.parked:
            await trio.sleep(SETTLE_S)
        progressed = [request for request in self.parked if request.answers]
        self.parked = [request for request in self.parked if request not in progressed]
        answered = [*(request for request in asked if request not in progressed), *progressed]
        one_waits = any(request.unlike and WAITS in request.unlike.sides for request in answered)
        with trio.move_on_after(PARKED_AFTER_S if one_waits else ANSWER_WITHIN_S):
            for request in answered:
                await request.all_answered.wait()
        for request in answered:
            self._compare(request)

    def _compare(self, asked: Asked) -> None:
        kafka, gateway = (
            side.plain(asked.answers[side.name]) if side.name in asked.answers else WAITS
            for side in self.sides
        )
        self._tell(f"{asked.what}\n    {_short(kafka)}")
        if self._is_repeated(asked, kafka, gateway):
            self._tell(f"    gateway, {Deviation.REPEATED}: {_short(gateway)}")
            self.deviations.add(Deviation.REPEATED)
            gateway = {**gateway, "assignment": None}
        lines = differences(kafka, gateway)
        if asked.unlike is not None and is_shown_on(self._release, asked.unlike.deviation):
            self._check_deviation(asked.unlike, kafka, gateway)
        elif lines and (deviation := self._find_explanation(asked, kafka, gateway)):
            self._tell(f"    gateway, {deviation}: {_short(gateway)}")
            self.deviations.add(deviation)
            raise Deviated
        elif lines:
            shown = "\n".join(f"  {line}" for line in lines)
            raise Difference(
                f"{self.transcript}\n    gateway: {_short(gateway)}\nDIFFERENT:\n{shown}"
            )
        asked.plain = kafka

    def _is_repeated(self, asked: Asked, kafka: Plain, gateway: Plain) -> bool:
        """Whether only the gateway returns the member's assignment, which is that of the last
        common answer."""
        if asked.api != "ConsumerGroupHeartbeat" or kafka.get("assignment") is not None:
            return False
        if first_error(kafka):
            return False
        one, other = (
            {name: sorted(numbers) for name, numbers in side.held.get(asked.who, {}).items()}
            for side in self.sides
        )
        return gateway.get("assignment") is not None and one == other

    def _find_explanation(self, asked: Asked, kafka: Plain, gateway: Plain) -> Deviation | None:
        if not self.may_deviate:
            return None
        deviation = self.excuse or find_deviation(asked.what, asked.api, kafka, gateway)
        is_shown = deviation is not None and is_shown_on(self._release, deviation)
        return deviation if is_shown else None

    def _check_deviation(self, unlike: Unlike, kafka: Plain, gateway: Plain) -> None:
        self._tell(f"    gateway, {unlike.deviation}: {_short(gateway)}")
        assert kafka == {**kafka, **unlike.kafka}, f"kafka says otherwise\n{self.transcript}"
        assert gateway == {**gateway, **unlike.gateway}, (
            f"gateway says otherwise\n{self.transcript}"
        )
        assert kafka != gateway, f"not seen: {unlike.deviation}\n{self.transcript}"
        self.deviations.add(unlike.deviation)

    # -- classic requests ------------------------------------------------------------------------

    async def join(
        self,
        who: str,
        member_id: str | None = None,
        *,
        topics: Iterable[str] = ("foo",),
        owned: Owned | _Told | None = None,
        instance: str | None = None,
        version: int = 9,
        error: int | None = None,
        unlike: Unlike | None = None,
        **fields: Any,
    ) -> Plain:
        """Send a JoinGroup with the member's id, if it has one."""

        def make(side: Side) -> Struct:
            return join_request(
                side.group,
                topics,
                owned=side.held.get(who, {}) if isinstance(owned, _Told) else owned,
                member_id=side.ids.get(who, "") if member_id is None else side.id_of(member_id),
                instance_id=instance,
                **{"timeout_ms": 60_000, **fields},
            )

        what = f"JoinGroup v{version}" + _format_arguments(
            member_id=member_id, instance=instance, topics=topics, owned=owned
        )
        return await self.ask(
            who, what, make, version=version, may_wait=True, error=error, unlike=unlike
        )

    async def sync(
        self,
        who: str,
        assign: Mapping[str, Owned | bytes] | None = None,
        *,
        member_id: str | None = None,
        generation: int | None = None,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
        **how: Any,
    ) -> Plain:
        """Send a SyncGroup with assignments by the members' names."""
        by_version = version >= FIRST_SYNC_VERSION_WITH_PROTOCOL

        def make(side: Side) -> Struct:
            return sync_request(
                side.group,
                side.id_of(who if member_id is None else member_id),
                side.epochs.get(who, -1) if generation is None else generation,
                {side.id_of(name): share for name, share in (assign or {}).items()},
                instance_id=instance,
                protocol_type=protocol_type if by_version else None,
                protocol=protocol if by_version else None,
            )

        what = f"SyncGroup v{version}" + _format_arguments(
            assign=assign, member_id=member_id, generation=generation, instance=instance
        )
        return await self.ask(who, what, make, version=version, may_wait=True, **how)

    async def beat(
        self,
        who: str,
        *,
        member_id: str | None = None,
        generation: int | None = None,
        instance: str | None = None,
        version: int = 4,
        **how: Any,
    ) -> Plain:

        def make(side: Side) -> Struct:
            return HeartbeatRequest(
                group_id=side.group,
                generation_id=side.epochs.get(who, -1) if generation is None else generation,
                member_id=side.id_of(who if member_id is None else member_id),
                group_instance_id=instance,
            )

        what = f"Heartbeat v{version}" + _format_arguments(
            member_id=member_id, generation=generation, instance=instance
        )
        return await self.ask(who, what, make, version=version, **how)

    async def leave(
        self, *leavers: str | tuple[str, str | None], version: int = 5, **how: Any
    ) -> Plain:
        """Send a LeaveGroup. Entries are names or (name, instance id)."""

        def make(side: Side) -> Struct:
            entries = [
                (side.id_of(leaver), None)
                if isinstance(leaver, str)
                else (side.id_of(leaver[0]), leaver[1])
                for leaver in leavers
            ]
            if version <= LAST_LEAVE_VERSION_OF_ONE_MEMBER:
                return LeaveGroupRequest(group_id=side.group, member_id=entries[0][0])
            members = tuple(MemberIdentity(member_id=m, group_instance_id=i) for m, i in entries)
            return LeaveGroupRequest(group_id=side.group, members=members)

        return await self.ask(
            "leaver", f"LeaveGroup v{version} {leavers}", make, version=version, **how
        )

    # -- native requests --------------------------------------------------------------------------

    async def native(
        self,
        who: str,
        epoch: int | None = None,
        *,
        member_id: str | None = None,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        owned: Owned | _Told | None = None,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int | None = None,
        version: int = 1,
        bare: bool = False,
        **how: Any,
    ) -> Plain:
        """Send a ConsumerGroupHeartbeat at the member's epoch. With epoch 0 it has all fields that
        joining needs, unless `bare`."""
        joins = epoch == 0 and not bare
        if joins and topics is None and regex is None:
            topics = ("foo",)
        if joins and owned is None:
            owned = {}
        if rebalance_timeout_ms is None:
            rebalance_timeout_ms = 60_000 if joins else -1

        def make(side: Side) -> Struct:
            held = side.held.get(who, {}) if isinstance(owned, _Told) else owned
            return ConsumerGroupHeartbeatRequest(
                group_id=side.group,
                member_id=side.id_of(who if member_id is None else member_id),
                member_epoch=side.epochs.get(who, 0) if epoch is None else epoch,
                instance_id=instance,
                rack_id=rack,
                rebalance_timeout_ms=rebalance_timeout_ms,
                subscribed_topic_names=None if topics is None else tuple(topics),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=None
                if held is None
                else by_topic_id({side.topic_id(name): numbers for name, numbers in held.items()}),
            )

        what = f"ConsumerGroupHeartbeat v{version}" + _format_arguments(
            epoch=epoch,
            member_id=member_id,
            topics=topics,
            regex=regex,
            owned=owned,
            instance=instance,
            assignor=assignor,
        )
        return await self.ask(who, what, make, version=version, **how)

    async def full(self, who: str, **how: Any) -> Plain:
        """Send a full heartbeat. By default it states the last assignment."""
        given: dict[str, Any] = {
            "topics": ("foo",),
            "owned": TOLD,
            "rebalance_timeout_ms": 60_000,
        }
        return await self.native(who, **{**given, **how})

    # -- offsets ---------------------------------------------------------------------------------

    async def commit(
        self,
        who: str,
        offsets: Mapping[str, Mapping[int, int]],
        *,
        member_id: str | None = None,
        epoch: int | None = None,
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 9,
        **how: Any,
    ) -> Plain:
        """Send an OffsetCommit with offsets by topic and partition."""

        def make(side: Side) -> Struct:
            return commit_of(
                offsets,
                group_id=side.group,
                member_id=side.id_of(who if member_id is None else member_id),
                epoch=side.epochs.get(who, -1) if epoch is None else epoch,
                instance_id=instance,
                metadata=metadata,
            )

        what = f"OffsetCommit v{version} {offsets}" + _format_arguments(
            member_id=member_id, epoch=epoch, instance=instance
        )
        return await self.ask(who, what, make, version=version, **how)

    async def fetch(
        self,
        who: str = "admin",
        of: Owned | None = None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
        require_stable: bool = False,
        version: int = 9,
        **how: Any,
    ) -> Plain:
        """Send an OffsetFetch, of all partitions and without a member by default."""

        topics = None if of is None else fetched_topics(of)

        def make(side: Side) -> Struct:
            if version <= LAST_FETCH_VERSION_OF_ONE_GROUP:
                return OffsetFetchRequest(
                    group_id=side.group, topics=topics, require_stable=require_stable
                )
            group = OffsetFetchRequestGroup(
                group_id=side.group,
                member_id=None if member_id is None else side.id_of(member_id),
                member_epoch=epoch,
                topics=topics,
            )
            return OffsetFetchRequest(groups=(group,), require_stable=require_stable)

        what = f"OffsetFetch v{version} {of}" + _format_arguments(member_id=member_id, epoch=epoch)
        return await self.ask(who, what, make, version=version, **how)

    async def delete_offsets(self, of: Owned, **how: Any) -> Plain:

        def make(side: Side) -> Struct:
            return offset_delete_request(side.group, of)

        return await self.ask("admin", f"OffsetDelete {of}", make, version=0, **how)

    # -- admin tools -----------------------------------------------------------------------------

    async def delete_group(self, *, version: int = 2, **how: Any) -> Plain:

        def make(side: Side) -> Struct:
            return DeleteGroupsRequest(groups_names=(side.group,))

        return await self.ask("admin", f"DeleteGroups v{version}", make, version=version, **how)

    async def describe_classic(self, *, version: int = 6, **how: Any) -> Plain:

        def make(side: Side) -> Struct:
            return DescribeGroupsRequest(groups=(side.group,))

        return await self.ask("admin", f"DescribeGroups v{version}", make, version=version, **how)

    async def describe(self, *, version: int = 1, **how: Any) -> Plain:

        def make(side: Side) -> Struct:
            return ConsumerGroupDescribeRequest(
                group_ids=(side.group,), include_authorized_operations=False
            )

        what = f"ConsumerGroupDescribe v{version}"
        return await self.ask("admin", what, make, version=version, **how)

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        version: int = 5,
        **how: Any,
    ) -> Plain:
        """Send a ListGroups. Returns this group's entry."""

        def make(side: Side) -> Struct:
            return ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))

        what = f"ListGroups v{version}" + _format_arguments(states=states, types=types)
        return await self.ask("admin", what, make, version=version, **how)

    # -- situations ------------------------------------------------------------------------------

    async def enter(self, assign: Mapping[str, Owned], **how: Any) -> None:
        """Let classic members join one after the other until they have these partitions."""
        inside: list[str] = []
        for who in assign:
            joined = await self.join(who, **how)
            if first_error(joined) == ErrorCode.MEMBER_ID_REQUIRED:
                joined = await self.join(who, **how)
            for other in inside:
                await self.join(other, **how)
            inside.append(who)
            assert not self.parked, self.transcript
            for member in inside:
                await self.sync(member, assign, protocol=how.get("protocol", "range"))
            assert not self.parked, self.transcript

    @property
    def run(self) -> str:
        """A unique part of names."""
        return self.sides[0].group

    async def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with a unique name."""
        self._tell(f"-- topic {name} of {partitions} partitions is created")
        made = await self.topic_admin.create(name, partitions)
        for side in self.sides:
            side.topics[name] = made.topic_id

    async def grow_topic(self, name: str, partitions: int) -> None:
        self._tell(f"-- topic {name} has {partitions} partitions now")
        await self.topic_admin.grow(name, partitions)

    async def delete_topic(self, name: str) -> None:
        self._tell(f"-- topic {name} is deleted")
        await self.topic_admin.delete(name)


async def failure_of(
    both: Both, play: Callable[[Both], Awaitable[None]], limit_s: float
) -> str | None:
    """Play a script, and return why it failed: one failing script must not stop the others. A
    deviation ends it, because the groups differ from then on."""
    try:
        with trio.fail_after(limit_s):
            await play(both)
    except Deviated:
        return None
    except Difference as difference:
        return str(difference)
    except Exception:
        return f"{both.transcript}\n{traceback.format_exc()}"
    return None


def _short(plain: Plain) -> Plain:
    """The mapping without empty entries."""
    match plain:
        case dict():
            shown = {key: _short(value) for key, value in plain.items()}
            return {
                key: value for key, value in shown.items() if value not in (None, "", (), False)
            }
        case tuple():
            return tuple(_short(value) for value in plain)
        case _:
            return plain


def _format_arguments(**given: Any) -> str:
    return "".join(
        f" {name}={'told' if value is TOLD else value!r}"
        for name, value in given.items()
        if value is not None
    )
