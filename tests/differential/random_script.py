"""Random scripts from a seed: mostly well-behaved clients, sometimes arbitrary requests.

Choices depend only on the seed and on equal answers, so both sides receive the same requests. A
script ends where the engine has a free choice (such as the next leader), and at a deviation,
because the two groups differ from then on.
"""

import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Deviated
from tests.support.differential.deviations import Deviation, first_error
from tests.support.differential.profiles import DISABLED, DOWNGRADE, MAIN, UPGRADE, Profile
from tests.support.differential.script import Script

STEPS = 60
NAMES = ("A", "B", "C", "D", "E")
INSTANCES = ("i1", "i2")
SUBSCRIPTIONS = (("foo",), ("foo", "bar"), ("six",), ("bar", "zar"), (), ("nowhere", "foo"))
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
PROFILES = (MAIN, MAIN, MAIN, UPGRADE, DOWNGRADE, DISABLED)


@dataclass(slots=True)
class Actor:
    """The script's knowledge of one client."""

    name: str
    kind: str = "out"
    """out, classic or native."""
    instance: str | None = None
    topics: tuple[str, ...] = ("foo",)
    protocol: str = "range"


@dataclass(slots=True)
class RandomScript:
    """One run."""

    both: BothSides
    chance: random.Random
    actors: dict[str, Actor] = field(default_factory=dict)
    incarnations: int = 0

    async def play(self) -> None:
        """Play this many steps, then describe the group."""
        for _ in range(STEPS):
            await self.step()
        await self.look()

    async def step(self) -> None:
        moves: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (6, self.arrive),
            (30, self.behave),
            (4, self.misbehave),
            (2, self.depart),
            (3, self.resubscribe),
            (4, self.commit),
            (2, self.look),
        ]
        move = self.chance.choices([step for _, step in moves], [weight for weight, _ in moves])[0]
        await move()

    # -- steps ------------------------------------------------------------------------------------

    async def arrive(self) -> None:
        """A new client joins, or a static one returns."""
        free = [name for name in NAMES if name not in self.actors]
        if not free:
            return
        actor = Actor(name=self.chance.choice(free), topics=self.chance.choice(SUBSCRIPTIONS))
        # Without any topic at the start, Kafka's targets are wrong: see Deviation.NO_TOPICS.
        actor.topics = actor.topics or ("foo",)
        held = {other.instance for other in self.actors.values()}
        if self.chance.random() < 0.3:
            actor.instance = self.chance.choice(INSTANCES)
            if actor.instance in held:
                evicted = next(e for e in self.actors.values() if e.instance == actor.instance)
                del self.actors[evicted.name]
        for side in self.both.sides:
            side.ids.pop(actor.name, None)
            side.held.pop(actor.name, None)
        self.actors[actor.name] = actor
        if self.chance.random() < 0.5:
            actor.kind = "native"
            await self.enter_native(actor)
        else:
            actor.kind = "classic"
            await self.join(actor)

    async def behave(self) -> None:
        """A client continues as its library would."""
        actor = self.random_actor()
        if actor is None or self.both.is_parked(actor.name):
            return
        if actor.kind == "native":
            await self.beat_native(actor)
        else:
            await self.beat_classic(actor)

    async def misbehave(self) -> None:
        """A client sends an arbitrary request."""
        actor = self.random_actor()
        if actor is None:
            return
        name, pick = actor.name, self.chance.choice
        both = self.both
        other = pick(NAMES)
        wild: list[Callable[[], Awaitable[object]]] = [
            lambda: both.beat(name, generation=pick((-1, 0, 1, 2, 3, 4, 5))),
            lambda: both.beat(name, member_id=other),
            lambda: both.beat(name, instance=pick(INSTANCES)),
            lambda: both.sync(name, generation=pick((-1, 0, 2, 3))),
            lambda: both.sync(name, protocol="roundrobin"),
            lambda: both.leave(pick(("nobody", ""))),
            lambda: both.leave((other, pick(INSTANCES))),
            lambda: both.native(name, pick((1, 2, 3, 4, 5, 6))),
            lambda: both.native(name, pick((-1, -2)), member_id="nobody"),
            lambda: both.native(name, owned={}),
            lambda: both.native("stranger", pick((1, 2, 3))),
            both.delete_group,
            lambda: both.delete_offsets({"foo": [0], "six": [1]}),
        ]
        if not both.is_parked(name):
            await pick(wild)()

    async def depart(self) -> None:
        """A client leaves in a random way."""
        actor = self.random_actor()
        if actor is None or self.both.is_parked(actor.name):
            return
        if actor.kind == "native":
            if actor.instance is not None and self.chance.random() < 0.5:
                await self.both.native(actor.name, -2, instance=actor.instance)
            else:
                await self.both.native(actor.name, -1)
        else:
            await self.both.leave((actor.name, self.chance.choice((actor.instance, None))))
        del self.actors[actor.name]

    async def resubscribe(self) -> None:
        actor = self.random_actor()
        if actor is None or self.both.is_parked(actor.name):
            return
        actor.topics = self.chance.choice(SUBSCRIPTIONS)
        if actor.kind == "native":
            await self.both.native(actor.name, topics=actor.topics)
        else:
            await self.join(actor)

    async def commit(self) -> None:
        """A client sends a commit, valid or not."""
        actor = self.random_actor()
        if actor is None:
            return
        topic = self.chance.choice(("foo", "bar", "six"))
        offsets = {topic: {self.chance.randrange(2): self.chance.randrange(100)}}
        epoch = self.chance.choice((None, None, None, -1, 1, 2, 3))
        await self.both.commit(actor.name, offsets, epoch=epoch, instance=actor.instance)
        await self.both.fetch(of={topic: (0, 1)})

    async def look(self) -> None:
        """Query the group like an admin tool."""
        await self.both.describe()
        await self.both.list()

    # -- clients ---------------------------------------------------------------------------------

    async def join(self, actor: Actor) -> None:
        """Send a JoinGroup, twice if the first returns an id. The client is eager or
        cooperative."""
        how: dict[str, Any] = {
            "topics": actor.topics,
            "protocol": actor.protocol,
            "instance": actor.instance,
            "owned": TOLD if self.chance.random() < 0.5 else None,
        }
        name = actor.name
        if actor.instance is None and self.knows_no_id(name) and await self.is_consumer_group():
            # Use an id of the script's, because a random one would have a random order.
            joined = await self.both.join(name, name, **{**how, "owned": None})
        else:
            joined = await self.both.join(name, **how)
            if first_error(joined) == ErrorCode.MEMBER_ID_REQUIRED:
                joined = await self.both.join(name, **how)
        await self.after(actor, joined)

    async def beat_classic(self, actor: Actor) -> None:
        """Send a Heartbeat, or a SyncGroup to get the assignment."""
        if self.chance.random() < 0.4:
            answer = await self.both.sync(
                actor.name, self.made_up_assignment(), instance=actor.instance
            )
        else:
            answer = await self.both.beat(actor.name, instance=actor.instance)
        await self.after(actor, answer)

    async def enter_native(self, actor: Actor) -> None:
        """Send the first heartbeat of a new id. Hand-written scripts cover the conversion of a
        rebalancing group: there the engine keeps more state than Kafka, and the two groups differ
        from then on."""
        self.incarnations += 1
        listed = (await self.both.list())["groups"]
        rebalances = bool(listed) and listed[0]["group_state"] in REBALANCING
        self.both.excuse = Deviation.INTERRUPTED if rebalances else None
        answer = await self.both.native(
            actor.name,
            0,
            member_id=f"{actor.name}{self.incarnations}",
            topics=actor.topics,
            instance=actor.instance,
        )
        if rebalances:
            raise Deviated
        await self.after(actor, answer)

    async def beat_native(self, actor: Actor, epoch: int | None = None) -> None:
        """Send a ConsumerGroupHeartbeat. Some state owned partitions, some are full."""
        if epoch == 0:
            answer = await self.both.native(
                actor.name, 0, topics=actor.topics, instance=actor.instance
            )
        else:
            owned = self.chance.choice((None, TOLD, TOLD))
            answer = await self.both.native(actor.name, owned=owned)
        await self.after(actor, answer)

    async def after(self, actor: Actor, answer: object) -> None:
        """React to an error like a client: rejoin or give up."""
        match first_error(answer):
            case 27 | 22:
                await self.join(actor)
            case 110:
                await self.beat_native(actor, epoch=0)
            case 0:
                pass
            case _:
                self.actors.pop(actor.name, None)

    def made_up_assignment(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """A leader's assignment of each partition to one member or none."""
        names = sorted(self.actors)
        given: dict[str, dict[str, list[int]]] = {name: {} for name in names}
        for topic, count in (("foo", 3), ("bar", 2), ("six", 6)):
            for number in range(count):
                given[self.chance.choice(names)].setdefault(topic, []).append(number)
        return {n: {t: tuple(numbers) for t, numbers in got.items()} for n, got in given.items()}

    # -- queries ----------------------------------------------------------------------------------

    def random_actor(self) -> Actor | None:
        return self.chance.choice(list(self.actors.values())) if self.actors else None

    def knows_no_id(self, name: str) -> bool:
        return name not in self.both.sides[0].ids

    async def is_consumer_group(self) -> bool:
        """Whether the group has members."""
        described = await self.both.describe()
        return bool(described["groups"][0]["members"])


def random_scripts(seeds: Iterable[int]) -> list[Script]:
    """A script per seed. The seed also chooses the profile."""
    return [_random_script(seed) for seed in seeds]


def _random_script(seed: int) -> Script:
    profile: Profile = random.Random(seed).choice(PROFILES)

    async def play(both: BothSides) -> None:
        await RandomScript(both, random.Random(seed)).play()

    return Script(f"seed-{seed}", profile, play, may_deviate=True)
