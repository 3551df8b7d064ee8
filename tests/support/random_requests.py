"""Sends random requests to one group, sensible or not, from a seed."""

import random

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.config import GroupConfig, MigrationPolicy
from tests.support.group_script import GroupScript, Owned, make_topics, subscription

TOPICS = ("foo", "bar", "gone")
TIMEOUTS_MS = (-(2**31), -1, 0, 1, 6_000, 10_000, 1_800_000, 2**31 - 1)


class RandomRequests:
    """Sends requests of every degree of plausibility."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        self.script = GroupScript(
            config=GroupConfig(
                consumer_migration_policy=dice.choice(
                    [MigrationPolicy.BIDIRECTIONAL] * 4 + list(MigrationPolicy)
                ),
                consumer_max_size=dice.choice([2, 5, 100]),
                classic_max_size=dice.choice([2, 5, 100]),
                classic_initial_rebalance_delay_ms=dice.choice([0, 3_000]),
                consumer_assignment_interval_ms=dice.choice([0, 1_000]),
            ),
            topics=make_topics(foo=3, bar=2),
        )
        self.ids = ["", "n1", "n2", "made-up"]
        self.commits: list[int] = []

    def step(self) -> None:
        dice = self.dice
        actions = [self.join, self.sync, self.beat, self.leave, self.native, self.native]
        actions += [self.join, self.commit, self.commit_ends, self.time, self.admin, self.restart]
        actions += [self.resolution_ends]
        dice.choice(actions)()
        self.script.view()

    def member_id(self) -> str:
        return self.dice.choice(self.ids)

    def instance_id(self) -> str | None:
        return self.dice.choice([None, None, None, "i1", "i2", ""])

    def epoch(self, member_id: str) -> int:
        if self.dice.random() < 0.2:
            return self.dice.choice([-3, -2, -1, 0, 1, 2, 3, 2**31 - 1])
        match self.script.engine.state.group:
            case ClassicGroup() as group:
                return group.core.generation
            case ConsumerGroup() as group if member_id in group.assignments:
                return group.assignments[member_id].member_epoch
            case _:
                return 1

    def _owned_partitions(self, member_id: str) -> Owned | None:
        group = self.script.engine.state.group
        is_member = isinstance(group, ConsumerGroup) and member_id in group.members
        if is_member and self.dice.random() < 0.7:
            return self.script.granted_partitions(member_id)
        claims: list[Owned | None] = [None, {}, {"foo": (0,)}, {"foo": (0, 1, 2), "gone": (7,)}]
        return self.dice.choice(claims)

    def topic_names(self) -> tuple[str, ...]:
        return tuple(self.dice.sample(TOPICS, self.dice.randint(0, 3)))

    def metadata(self, member_id: str) -> bytes:
        if self.dice.random() < 0.05:
            return self.dice.choice([b"", b"\x00", b"\xff\xff\x00\x00", b"\x00\x01junk"])
        return subscription(
            self.topic_names(),
            owned=self._owned_partitions(member_id),
            generation=self.epoch(member_id),
            version=self.dice.randint(0, 3),
        )

    def join(self) -> None:
        dice, member_id = self.dice, self.member_id()
        names = dice.choice([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ()])
        token = self.script.send_join(
            member_id,
            instance_id=self.instance_id(),
            protocols=tuple((name, self.metadata(member_id)) for name in names),
            protocol_type=dice.choice(["consumer"] * 8 + ["connect", ""]),
            version=dice.choice([3, 5, 8, 9]),
            session_timeout_ms=dice.choice([6_000, 10_000, 10_000, *TIMEOUTS_MS]),
            rebalance_timeout_ms=dice.choice([10_000, 10_000, 10_000, *TIMEOUTS_MS]),
        )
        if not self.script.is_parked(token):
            reply = self.script.answers[token]
            self.ids.append(getattr(reply, "member_id", ""))
            self.ids = self.ids[:4] + self.ids[-6:]

    def sync(self) -> None:
        member_id = self.member_id()
        self.script.send_sync(
            member_id,
            self.epoch(member_id),
            instance_id=self.instance_id(),
            assignments={id_: {"foo": (0, 1)} for id_ in self.ids}
            if self.dice.random() < 0.5
            else {},
            protocol_name=self.dice.choice([None, "range", "range", "sticky"]),
            version=self.dice.choice([3, 5]),
        )

    def beat(self) -> None:
        member_id = self.member_id()
        self.script.beat(member_id, self.epoch(member_id), instance_id=self.instance_id())

    def leave(self) -> None:
        leavers = [(self.member_id(), self.instance_id()) for _ in range(self.dice.randint(0, 3))]
        self.script.leave(*leavers)

    def native(self) -> None:
        dice, member_id = self.dice, self.member_id()
        epoch = dice.choice([0, 0, self.epoch(member_id), self.epoch(member_id), -1, -2])
        self.script.native(
            member_id,
            epoch,
            topics=dice.choice([None, self.topic_names()]),
            regex=dice.choice([None, None, "", "f.*", "bar|foo", "x*", "("]),
            owned=None if epoch == 0 else self._owned_partitions(member_id),
            instance_id=self.instance_id(),
            assignor=dice.choice([None, None, "range", "uniform", "none"]),
            version=dice.choice([0, 1]),
            rebalance_timeout_ms=dice.choice([-1, *TIMEOUTS_MS]),
        )

    def commit(self) -> None:
        member_id = self.member_id()
        token, decision = self.script.commit(
            member_id,
            self.epoch(member_id),
            self._owned_partitions(member_id) or {},
            instance_id=self.instance_id(),
            version=self.dice.choice([8, 9]),
            is_transactional=self.dice.random() < 0.2,
        )
        if decision.error == 0:
            self.commits.append(token)

    def commit_ends(self) -> None:
        if self.commits:
            token = self.commits.pop(self.dice.randrange(len(self.commits)))
            self.script.commit_answered(token, lost=self.dice.random() < 0.3)
            if self.dice.random() < 0.1:
                self.script.commit_answered(token)

    def resolution_ends(self) -> None:
        if self.script.engine.state.resolution is not None:
            self.script.resolve(fails=self.dice.random() < 0.1)

    def time(self) -> None:
        self.script.wait(self.dice.choice([1, 500, 3_000, 11_000, 60_000]))

    def admin(self) -> None:
        self.script.fetch(self.dice.choice([None, self.member_id()]), self.dice.choice([-1, 2]))
        self.script.delete_offsets(*self.topic_names())
        if self.dice.random() < 0.3:
            self.script.delete_group()
        if self.dice.random() < 0.3:
            self.script.alter_configs(
                session_timeout=self.dice.choice([None, 45_000, 60_000, "x"]),
                assignment_interval=self.dice.choice([None, 0, 15_000, -1]),
            )
        if self.dice.random() < 0.3:
            version = self.script.topics.version + 1
            self.script.topics = make_topics(version, version, foo=self.dice.randint(1, 6), bar=2)

    def restart(self) -> None:
        if self.dice.random() < 0.2:
            self.script.restart()
            self.commits.clear()
