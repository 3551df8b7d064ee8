"""No request of a client starts a group again: each kind, sensible or not, in each state.

Each is answered, or waits; nothing is logged as a bug. A request that has changed the state is the
last one of its scene.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from coordinator.interface.events import (
    ClaimReceived,
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    HeartbeatReceived,
    InstallAssignmentReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import AssignmentMetadata, ClientAssignor
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call, Commit, Commits, Unanswerable
from gateway.hosting.effects import Ask, AskCoordinator, Load, Requester, Write
from gateway.hosting.inputs import Ending, Resumed
from gateway.hosting.states import AdoptionStage, ReleaseStage
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.gateway.hosting.release_scene import ReleaseScene, log_has, step
from tests.gateway.hosting.test_group_adoption import Scene as AdoptionScene
from tests.support.group_values import subscription
from tests.support.hosted_scene import HostedScene

ID = UUID(int=7)
ODD = Partition(UUID(int=99), -1)
ODD_ASSIGNOR = ClientAssignor(name="", minimum_version=3, maximum_version=-1, version=9)
GARBAGE = b"\xff\xff\xff"
MAX_INT = 2**31 - 1
LONG_MS = 20_000
"""Longer than every session and every patience."""
Send = Callable[[HostedScene], Call]

# -- states ----------------------------------------------------------------------------------------


def not_loaded() -> HostedScene:
    return HostedScene()


def loading() -> HostedScene:
    scene = HostedScene()
    scene.hold(Load)
    scene.feed(Resumed())
    return scene


def unreadable() -> HostedScene:
    scene = HostedScene()
    scene.load_failure = "the disk is gone"
    scene.feed(Resumed())
    return scene


def empty() -> HostedScene:
    scene = stable()
    for member_id in list(scene.group.engine.members):
        scene.leave(member_id)
    return scene


def with_unused_id() -> HostedScene:
    scene = HostedScene()
    scene.join()
    return scene


def _fresh_id(scene: HostedScene) -> str:
    reply = scene.join().answer
    assert isinstance(reply, JoinGroupReply)
    return reply.member_id


def preparing() -> HostedScene:
    """Two members, one of which has not rejoined."""
    scene = stable()
    scene.join(_fresh_id(scene))
    return scene


def completing() -> HostedScene:
    """The leader has not sent its assignment."""
    scene = HostedScene()
    call = scene.join(_fresh_id(scene))
    scene.wait_until(lambda: call.answer)
    return scene


def stable() -> HostedScene:
    scene = HostedScene()
    scene.classic_member()
    return scene


def static() -> HostedScene:
    scene = HostedScene()
    call = scene.join(instance_id="one")
    scene.wait_until(lambda: call.answer)
    return scene


def native() -> HostedScene:
    scene = HostedScene()
    scene.native_member()
    return scene


def mixed_group() -> HostedScene:
    scene = stable()
    scene.native_member()
    return scene


def without_anchor() -> HostedScene:
    scene = stable()
    scene.hold(AskCoordinator)
    scene.in_cluster.remove_member()
    scene.wait(4_000)
    return scene


def ending() -> HostedScene:
    scene = mixed_group()
    scene.feed(Ending())
    return scene


def writing() -> HostedScene:
    """A member joins, and the log is slow."""
    scene = native()
    scene.hold(Write)
    scene.native("m")
    return scene


def adopting(stage: AdoptionStage) -> HostedScene:
    scene = AdoptionScene()
    match stage:
        case AdoptionStage.PROPOSED:
            scene.adopt()
        case AdoptionStage.CONFIRMING:
            scene.adopt()
            scene.describe()
        case AdoptionStage.ANNOUNCING:
            scene.adopt()
            scene.describe()
            scene.hold(Write)
            scene.describe()
        case AdoptionStage.IMPERSONATING:
            scene.to_holding()
        case AdoptionStage.REJOINING:
            scene.to_rejoining()
        case AdoptionStage.ANCHORING:
            scene.to_anchoring()
        case AdoptionStage.RESUMING:
            scene.to_anchoring()
            again = AdoptionScene()
            again.records = scene.records
            again.feed(Resumed(is_moving=True))
            scene = again
        case AdoptionStage.GIVING_BACK:
            scene.to_recalling()
        case AdoptionStage.FORGETTING:
            scene.to_holding()
            scene.hold(Write)
            scene.fail(Requester.OTHERS) if scene.waits(Ask) else scene.wait(2_000)
        case AdoptionStage.ADOPTED:
            scene.to_end()
            assert scene.group.is_live
            return scene
        case _:
            raise ValueError(stage)
    assert scene.stage is stage
    return scene


def loading_an_adoption() -> HostedScene:
    """The log is not read, and is known to have an adoption."""
    scene = AdoptionScene()
    scene.hold(Load)
    scene.feed(Resumed(is_moving=True))
    return scene


def releasing(stage: ReleaseStage | None, *, has_native: bool = False) -> HostedScene:
    """`stage` None: the release waits for the end of a rebalance."""
    scene = ReleaseScene()
    epoch = scene.native_member().member_epoch if has_native else 0
    if stage is None:
        scene.join(scene.member_id, topics=("foo", "bar"))
    scene.begin()
    if stage is ReleaseStage.ANNOUNCING:
        scene.hold(Write)
    if stage in (None, ReleaseStage.RECALLING):
        assert scene.release_of.stage is stage
        return scene
    if has_native:
        for answer in (epoch, epoch, 0):
            scene.native("n", answer, owned={})
    scene.join(scene.member_id)
    if stage is ReleaseStage.GATHERING or (not has_native and stage is ReleaseStage.LEAVING):
        step(scene, JoinGroupResponse(generation_id=9, protocol_name="x"))
        step(scene, SyncGroupResponse(error_code=0 if stage is ReleaseStage.GATHERING else 25))
    if stage in (ReleaseStage.AWAITING_NATIVE, ReleaseStage.CONCLUDING):
        scene.hold(Write)
        if not has_native:
            step(scene, JoinGroupResponse(error_code=25))
        scene.wait(100)
        step(scene, LeaveGroupResponse())
    assert scene.release_of.stage is stage, scene.release_of.stage
    return scene


def released_group() -> HostedScene:
    scene = ReleaseScene()
    scene.to_the_end()
    return scene


def resumed_release(*, is_announced: bool) -> HostedScene:
    """The next process continues with a release."""
    scene = ReleaseScene()
    scene.begin()
    if is_announced:
        scene.join(scene.member_id)
    again = scene.restart_after_kill()
    again.wait(100)
    record = log_has(again)
    assert record is not None
    assert (record.group is None) is is_announced
    return again


STATES: dict[str, Callable[[], HostedScene]] = {
    state.__name__: state
    for state in (
        *(not_loaded, loading, unreadable, empty, with_unused_id, preparing, completing, stable),
        *(
            static,
            native,
            mixed_group,
            without_anchor,
            ending,
            writing,
            loading_an_adoption,
            released_group,
        ),
    )
}
STATES |= {
    f"adopting-{stage}": partial(adopting, stage)
    for stage in (
        *(AdoptionStage.PROPOSED, AdoptionStage.CONFIRMING, AdoptionStage.ANNOUNCING),
        *(AdoptionStage.IMPERSONATING, AdoptionStage.REJOINING, AdoptionStage.ANCHORING),
        *(AdoptionStage.RESUMING, AdoptionStage.GIVING_BACK, AdoptionStage.FORGETTING),
        AdoptionStage.ADOPTED,
    )
}
STATES |= {
    f"releasing-{stage or 'waits'}{'-mixed' if has_native else ''}": partial(
        releasing, stage, has_native=has_native
    )
    for stage, has_native in (
        *((None, False), (ReleaseStage.RECALLING, False), (ReleaseStage.RECALLING, True)),
        *((ReleaseStage.ANNOUNCING, False), (ReleaseStage.ANNOUNCING, True)),
        *((ReleaseStage.OPENING, False), (ReleaseStage.GATHERING, False)),
        *((ReleaseStage.LEAVING, False), (ReleaseStage.LEAVING, True)),
        *((ReleaseStage.AWAITING_NATIVE, True), (ReleaseStage.CONCLUDING, False)),
    )
}
STATES |= {
    "resumed-recalling": partial(resumed_release, is_announced=False),
    "resumed-leaving": partial(resumed_release, is_announced=True),
}

# -- requests --------------------------------------------------------------------------------------


def member_ids(scene: HostedScene) -> list[str]:
    """No member, a stranger, and the members that the group has, or the record of its move."""
    state = scene.group.engine.core.state
    ids = ["", "stranger", *scene.group.engine.members]
    for record in (state.adoption, state.release):
        if record is not None and record.group is not None:
            ids += [member.member_id for member in record.group.members]
    return ids


def call(api: GroupApi, event: Callable[..., Request], **how: Any) -> Send:
    def send(scene: HostedScene) -> Call:
        known: dict[str, Any] = {"knows_topics": True, "is_at_coordinator": True, **how}
        request = Call(api=api, connection=1, **known)
        request.event = event(token=request.token)
        return scene.ask(request)

    return send


def commits(*makes: Callable[[Token, Topics], Request], api: GroupApi) -> Send:
    def send(scene: HostedScene) -> Call:
        batch = [
            Commit(make=make, topic_names=frozenset(), has_member=True, order_keys=frozenset())
            for make in makes
        ]
        request = Commits(
            api=api,
            commits={commit.token: commit for commit in batch},
            knows_topics=True,
            is_at_coordinator=True,
            connection=1,
        )
        return scene.ask(request)

    return send


def requests(member_id: str) -> Iterator[tuple[str, Send]]:
    """Every kind of request under this id."""
    instances = (None, "", "one")
    epochs = (-3, -2, -1, 0, 1, 2, 7, MAX_INT)
    protocols: tuple[tuple[tuple[str, bytes], ...], ...] = (
        (),
        (("", b""),),
        (("range", GARBAGE),),
        (("range", subscription(())), ("range", subscription(("foo",)))),
        (("cooperative-sticky", subscription(("foo",), owned={"foo": (0, 0, -1)})),),
        (("stream", b""),),
        (("range", subscription(("foo",), owned={"foo": (0,)})),),
        (("range", subscription(("foo",))),),
    )
    for instance_id, offered, (version, kind) in product(
        instances, protocols, ((0, "consumer"), (9, "consumer"), (9, ""), (9, "connect"))
    ):
        yield (
            f"join {instance_id} {offered} v{version} {kind}",
            call(
                GroupApi.JOIN,
                partial(
                    JoinGroupReceived,
                    version=version,
                    member_id=member_id,
                    instance_id=instance_id,
                    client_id="",
                    client_host="",
                    protocol_type=kind,
                    protocols=offered,
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=-1,
                    fresh_id=ID,
                ),
                is_foreign=kind == "connect",
            ),
        )
    for epoch, instance_id in product(epochs, instances):
        yield (
            f"sync {epoch} {instance_id}",
            call(
                GroupApi.SYNC,
                partial(
                    SyncGroupReceived,
                    version=5,
                    member_id=member_id,
                    instance_id=instance_id,
                    generation=epoch,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=((member_id, GARBAGE), ("", b"")),
                ),
            ),
        )
        yield (
            f"beat {epoch} {instance_id}",
            call(
                GroupApi.HEARTBEAT,
                partial(
                    HeartbeatReceived,
                    member_id=member_id,
                    instance_id=instance_id,
                    generation=epoch,
                ),
            ),
        )
        for owned, names, regex in (
            (None, None, None),
            (frozenset(), (), ""),
            (frozenset({ODD}), ("foo", "foo", ""), "["),
        ):
            apis = {0: GroupApi.CONSUMER_JOIN, -1: GroupApi.CONSUMER_LEAVE}
            yield (
                f"native {epoch} {instance_id} {regex}",
                call(
                    apis.get(epoch, GroupApi.CONSUMER_HEARTBEAT),
                    partial(
                        ConsumerHeartbeatReceived,
                        version=1,
                        member_id=member_id,
                        member_epoch=epoch,
                        client_id="",
                        client_host="",
                        instance_id=instance_id,
                        rebalance_timeout_ms=-2,
                        topic_names=names,
                        topic_regex=regex,
                        server_assignor="none" if regex else None,
                        client_assignors=(ODD_ASSIGNOR,) if regex else None,
                        owned=owned,
                        fresh_id=ID,
                    ),
                ),
            )
        make = partial(_commit, member_id, instance_id, epoch)
        yield f"commit {epoch} {instance_id}", commits(make, api=GroupApi.COMMIT)
        in_transaction = partial(make, is_transactional=True)
        yield f"txn {epoch} {instance_id}", commits(in_transaction, api=GroupApi.TXN_COMMIT)
    yield (
        "two commits",
        commits(
            partial(_commit, member_id, None, 1),
            partial(_commit, "stranger", "one", -1),
            api=GroupApi.COMMIT,
        ),
    )
    yield "no commit", commits(api=GroupApi.COMMIT)
    leavers = (
        (),
        (Leaver(member_id=member_id),),
        (Leaver(member_id=member_id), Leaver(member_id=member_id)),
        (Leaver(member_id=member_id, instance_id="one"),),
        (Leaver(member_id="", instance_id="one"), Leaver(member_id="stranger")),
        (Leaver(member_id="", instance_id=""), Leaver(member_id="", instance_id=None)),
    )
    for batch in leavers:
        yield f"leave {batch}", call(GroupApi.LEAVE, partial(LeaveGroupReceived, members=batch))
    for epoch in epochs:
        yield (
            f"prepare {epoch}",
            call(
                GroupApi.ASSIGNMENT,
                partial(PrepareAssignmentReceived, member_id=member_id, member_epoch=epoch),
            ),
        )
        yield (
            f"install {epoch}",
            call(
                GroupApi.ASSIGNMENT,
                partial(
                    InstallAssignmentReceived,
                    member_id=member_id,
                    member_epoch=epoch,
                    group_epoch=epoch,
                    target={"": frozenset({ODD}), member_id: frozenset()},
                    metadata={"stranger": AssignmentMetadata(version=-1, metadata=GARBAGE)},
                ),
            ),
        )
        for partitions in (None, frozenset[Partition](), frozenset({ODD})):
            yield (
                f"fetch {epoch} {partitions}",
                call(
                    GroupApi.FETCH,
                    partial(
                        OffsetFetchReceived,
                        member_id=member_id,
                        epoch=epoch,
                        partitions=partitions,
                    ),
                ),
            )


def requests_of_admins() -> Iterator[tuple[str, Send]]:
    yield "free", HostedScene.free
    yield "delete", call(GroupApi.ADMIN, DeleteGroupReceived)
    yield "claim", call(GroupApi.ADMIN, ClaimReceived, is_placed=True)
    yield "configs", call(GroupApi.ADMIN, ConfigsReceived, is_placed=True)
    for names in ((), ("",), ("foo", "foo")):
        yield (
            f"delete offsets {names}",
            call(GroupApi.OFFSET_DELETE, partial(OffsetDeleteReceived, topic_names=names)),
        )


def _commit(
    member_id: str,
    instance_id: str | None,
    epoch: int,
    token: Token,
    _topics: Topics,
    *,
    is_transactional: bool = False,
) -> OffsetCommitReceived:
    return OffsetCommitReceived(
        token=token,
        version=9,
        member_id=member_id,
        instance_id=instance_id,
        epoch=epoch,
        partitions=frozenset({ODD}),
        is_transactional=is_transactional,
    )


# -- the test --------------------------------------------------------------------------------------


def state_of(scene: HostedScene) -> object:
    """What tells one state from another."""
    group = scene.group
    state = group.engine.core.state
    epoch = None if state.group is None else group.engine.core.epoch
    return (
        *(group.engine.phase, group.anchor.phase, group.move.stage),
        *(type(state.group), epoch, state.release, tuple(group.engine.members)),
    )


def check(scene: HostedScene, name: str) -> None:
    """Nothing has failed, and every call is answered or waits."""
    bugs = [line for line in scene.lines if line.error is not None]
    assert not bugs, f"{name}: {bugs[0].error!r}"
    for request in scene.calls:
        assert not isinstance(request.answer, Unanswerable), name
        assert request.answer is not None or request.token in scene.group.calls.by_token, name


@pytest.mark.parametrize("name", STATES)
def test_no_request_starts_the_group_again(name: str) -> None:
    make_scene = STATES[name]
    scene = make_scene()
    before = state_of(scene)
    sends = itertools.chain(*map(requests, member_ids(scene)), requests_of_admins())
    for described, send in sends:
        if state_of(scene) != before:
            scene.wait(LONG_MS)
            check(scene, name)
            scene = make_scene()
        send(scene)
        check(scene, f"{name}: {described}")
