"""A native client that runs an assignor itself (rule 9.7).

While there are faults it is often slow, wrong or silent, and installs unrequested targets.
"""

from collections.abc import Mapping

from coordinator.assignors import spec_of
from coordinator.assignors.uniform import assign_uniformly
from coordinator.interface.events import InstallAssignmentReceived, PrepareAssignmentReceived
from coordinator.interface.records import COOPERATIVE_STICKY, AssignmentMetadata, ClientAssignor
from coordinator.interface.replies import PrepareAssignmentReply
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Computation, Subscriber
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.client import Client
from tests.simulation.driver import Answer

SLOW_MS_MAX = 4_000
FAILURE_RATE = 0.4
VERSIONS = ((-1, 3, 3), (-1, 3, 3), (-1, 3, 1), (-1, 1, 1))
"""Lowest, highest, own. All overlap, but not every member handles all of them."""


def assignors(versions: tuple[int, int, int]) -> tuple[ClientAssignor, ...]:
    """What a client supports: what classic clients do as well."""
    minimum, maximum, version = versions
    return (
        ClientAssignor(
            name=COOPERATIVE_STICKY,
            minimum_version=minimum,
            maximum_version=maximum,
            version=version,
        ),
    )


class Computing:
    """The part of a client that computes targets."""

    def __init__(self, client: Client) -> None:
        self._client, self._world = client, client.world
        self._is_busy = False

    @property
    def _is_spoilt(self) -> bool:
        network = self._client.context.network
        return not network.is_calm and self._world.chance(FAILURE_RATE)

    def compute_target(self) -> None:
        """Compute the target, unless that is under way."""
        if self._is_busy:
            return
        self._is_busy = True
        self._world.counts["members told to compute"] += 1
        self._client.later(self._world.between(0, 300), self._prepare)

    def forge(self) -> None:
        """Install a target that was not asked for."""
        client = self._client
        epoch = client.stated_epoch()
        if not client.context.network.is_calm and epoch > 0 and self._world.chance(0.1):
            self._install(epoch, epoch + self._world.between(0, 2), {})

    def _prepare(self) -> None:
        client = self._client
        request = PrepareAssignmentReceived(
            token=client.token(), member_id=client.member_id, member_epoch=client.stated_epoch()
        )
        client.ask(request, self._on_prepared, self._end)

    def _on_prepared(self, answer: Answer) -> None:
        reply = answer.reply
        assert isinstance(reply, PrepareAssignmentReply)
        if reply.error is not ErrorCode.NONE:
            self._end()
            return
        slow_ms = SLOW_MS_MAX if self._is_spoilt else 100
        self._client.later(self._world.between(0, slow_ms), self._compute, reply)

    def _compute(self, reply: PrepareAssignmentReply) -> None:
        target, error, epoch = target_of(reply), 0, self._client.stated_epoch()
        if self._is_spoilt:
            match self._world.between(0, 3):
                case 0:  # it is silent
                    self._client.later(SLOW_MS_MAX, self._end)
                    return
                case 1:
                    error = 1
                case 2:
                    epoch -= 1
                case _:
                    del target[self._world.dice.choice(sorted(target))]
        self._install(epoch, reply.group_epoch, target, error)
        if self._is_spoilt:  # the answer may be lost
            self._client.later(500, self._install, epoch, reply.group_epoch, target, error)

    def _install(
        self,
        epoch: int,
        group_epoch: int,
        target: Mapping[str, frozenset[Partition]],
        error: int = 0,
    ) -> None:
        metadata = AssignmentMetadata(version=1, metadata=b"%d" % group_epoch)
        request = InstallAssignmentReceived(
            token=self._client.token(),
            member_id=self._client.member_id,
            member_epoch=max(0, epoch),
            group_epoch=group_epoch,
            error=error,
            target=target,
            metadata=dict.fromkeys(target, metadata),
        )
        self._client.ask(request, self._end, self._end)

    def _end(self, _answer: Answer | None = None) -> None:
        self._is_busy = False


def target_of(reply: PrepareAssignmentReply) -> dict[str, frozenset[Partition]]:
    """A target for the group that the answer describes."""
    members = {
        member.member_id: Subscriber(
            instance_id=member.instance_id, rack_id=member.rack_id, topic_ids=member.topic_ids
        )
        for member in reply.members
    }
    before = {member.member_id: member.target for member in reply.members}
    computation = Computation(
        epoch=reply.group_epoch,
        assignor=reply.assignor,
        members=members,
        partition_counts={topic_id: count for topic_id, _name, count in reply.topics},
        target=before,
    )
    return {**before, **assign_uniformly(spec_of(computation))}
