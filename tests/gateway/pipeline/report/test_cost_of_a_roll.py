"""The demo's ledger hears the consumers, and the report reads the gateway's events. Both tell the
same cost of a roll, step by step."""

from coordinator.interface.records import EpochCause, RemovalCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.demo.ledger import Ledger, Process
from gateway.demo.reports import AssignedReport, RevokedReport
from gateway.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupEpochBumped,
    GroupStateChanged,
)
from gateway.events.member_events import (
    GrantEnded,
    MemberJoined,
    MemberLeft,
    PartitionsAssigned,
    Protocol,
)
from gateway.pipeline.report.digest import Digest, report
from tests.support.event_writer import EventWriter
from tests.support.folded_lines import folds
from tests.support.group_events import COMPLETING, EMPTY, PREPARING, STABLE

PARTITIONS = 4
STEPS = ((10, 12, 13.5), (30, 30.5, 33), (50, 53, 53.25))
"""When a member leaves, when its replacement arrives, and when that owns the partitions."""


def moves(was: ClassicPhase, to: ClassicPhase) -> GroupStateChanged:
    return GroupStateChanged(from_state=was, to_state=to, generation=1)


def process(member_id: str) -> Process:
    return Process(member=member_id, incarnation=1)


class Roll:
    """Writes the gateway's events, and tells the ledger what the consumers would."""

    def __init__(self) -> None:
        self.writer = EventWriter()
        self.ledger = Ledger(PARTITIONS * len(STEPS))
        self.epoch = 1

    def joins(self, at_s: float, member_id: str, protocol: Protocol) -> None:
        self.writer.tell(
            at_s,
            MemberJoined(
                member_id=member_id,
                client_id=member_id,
                client_host="/h",
                instance_id=None,
                protocol=protocol,
            ),
        )

    def begins(self, at_s: float, cause: EpochCause) -> None:
        self.epoch += 1
        self.writer.tell(at_s, GroupEpochBumped(group_epoch=self.epoch, cause=cause))

    def gets(self, at_s: float, member_id: str, numbers: tuple[int, ...]) -> None:
        event = PartitionsAssigned(
            member_id=member_id, member_epoch=self.epoch, partitions={"t": numbers}
        )
        self.writer.tell(at_s, event)
        self.ledger.hear(
            Process(member=member_id, incarnation=1), AssignedReport(at_s=at_s, partitions=numbers)
        )

    def leaves(self, at_s: float, member_id: str, numbers: tuple[int, ...]) -> None:
        self.writer.tell(
            at_s,
            GrantEnded(
                cause="revoked",
                member_id=member_id,
                member_epoch=self.epoch,
                partitions={"t": numbers},
            ),
            MemberLeft(member_id=member_id, cause=RemovalCause.LEFT),
        )
        self.ledger.hear(
            Process(member=member_id, incarnation=1), RevokedReport(at_s=at_s, partitions=numbers)
        )


def test_each_step_costs_the_same_by_ledger_and_by_events() -> None:
    """A step holds all gaps from the leave of a member until its replacement has settled."""
    roll = Roll()
    shares = [tuple(range(n * PARTITIONS, (n + 1) * PARTITIONS)) for n in range(len(STEPS))]
    roll.writer.tell(0, GroupCreated(kind="classic"), moves(EMPTY, PREPARING))
    for number, numbers in enumerate(shares):
        roll.joins(1, f"old-{number}", "classic")
        roll.gets(2, f"old-{number}", numbers)
    roll.writer.tell(2, moves(PREPARING, COMPLETING), moves(COMPLETING, STABLE))
    by_ledger = []
    for number, (left_s, came_s, settled_s) in enumerate(STEPS):
        roll.leaves(left_s, f"old-{number}", shares[number])
        if number == 0:
            roll.writer.tell(left_s, moves(STABLE, PREPARING))
            turned = GroupConverted(
                direction="classic->consumer", is_live=True, group_epoch=1, members=2, cause="new"
            )
            roll.writer.tell(came_s, turned)
        roll.joins(came_s, f"new-{number}", "consumer")
        roll.begins(came_s, EpochCause.MEMBER_JOINED)
        roll.gets(settled_s, f"new-{number}", shares[number])
        cost = roll.ledger.disturbance(f"old-{number}", left_s, settled_s + 1)
        by_ledger.append(cost.unowned_partition_s)
    digest = Digest(top=1)
    for key, tables in folds(*roll.writer.lines):
        digest.add(key, tables)
    told = report(digest, {})
    (group,) = told.groups
    assert [step.unowned_partition_s for step in group.steps] == by_ledger
    assert told.totals.unowned_in_migrations_partition_s == sum(by_ledger)
    assert told.totals.unowned_partition_s == sum(by_ledger)
