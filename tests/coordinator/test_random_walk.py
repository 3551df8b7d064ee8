"""Clients that follow the protocol, in any order of events: nobody shares a partition, and in the
end everybody has its part (spec 12.1, invariants 1 to 3 and 5).

The script checks the engine's side after each step; here the clients' side is checked as well.
"""

import random
from collections import Counter

import pytest

from coordinator.consumer.group import ConsumerGroup
from tests.support.group_clients import ClassicClient, Client, NativeClient, named
from tests.support.group_script import GroupScript, make_topics

COUNTS = {"foo": 4, "bar": 2}
CLIENTS_MAX = 6
STEPS = 150
ROUNDS_MAX = 70
"""A crashed static member is waited for: its session ends within 45 rounds of a second."""

DEEDS = {"act": 60, "time": 30, "come": 6, "go": 3, "crash": 2, "restart": 4, "failover": 2}
DEEDS |= {"resolve": 10}


class Walk:
    """A group and its clients."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.script = GroupScript(topics=make_topics(**COUNTS))
        self.clients: list[Client] = []
        self.names = (f"n{n}" for n in range(10 * STEPS))
        self.instances = (f"i{n}" for n in range(10 * STEPS))

    def step(self) -> None:
        dice = self.dice
        match dice.choices([*DEEDS], [*DEEDS.values()])[0]:
            case "act" if self.clients:
                dice.choice(self.clients).act(is_lost=dice.random() < 0.1)
            case "time":
                self.script.wait(dice.choice([10, 300, 1_500]))
            case "come" if len(self.clients) < CLIENTS_MAX:
                topics = dice.choice([("foo",), ("bar", "foo"), ("bar", "foo")])
                self.start(topics, next(self.instances) if dice.random() < 0.3 else None)
            case "go" if self.clients:
                self.pick().stop(comes_back=False)
            case "crash" if self.clients:
                self.pick()
            case "failover":
                self.script.restart()
                for client in self.clients:
                    client.lose_connection()
            case "resolve" if self.script.engine.state.resolution is not None:
                self.script.resolve(fails=dice.random() < 0.1)
            case "restart" if self.clients:
                client = self.pick()
                client.stop(comes_back=True)
                self.start(client.topics, client.instance_id)
        self.check_clients()

    def pick(self) -> Client:
        return self.clients.pop(self.dice.randrange(len(self.clients)))

    def start(self, topics: tuple[str, ...], instance_id: str | None) -> None:
        """A process of either protocol."""
        if self.dice.random() < 0.4:
            has_regex = self.dice.random() < 0.3
            client: Client = NativeClient(
                self.script, next(self.names), topics, instance_id, has_regex=has_regex
            )
        else:
            is_cooperative = self.dice.random() < 0.5
            client = ClassicClient(
                self.script, COUNTS, topics, instance_id, is_cooperative=is_cooperative
            )
        self.clients.append(client)

    def check_clients(self) -> None:
        """Of those that the group knows, no two own the same partition."""
        group = self.script.engine.state.group
        members = set(group.members) if group is not None else set()
        known = [client for client in self.clients if client.member_id in members]
        owned = Counter(partition for client in known for partition in client.owned)
        assert not [p for p, count in owned.items() if count > 1], self.script.story()
        if isinstance(group, ConsumerGroup):
            for client in known:
                held = self.script.named(group.assignments[client.member_id].held)
                assert client.owned <= named(held), self.script.story()

    def settle(self) -> None:
        """Everybody behaves: soon all is assigned, and every heartbeat says so."""
        for _ in range(ROUNDS_MAX):
            for client in self.clients:
                client.act(is_lost=False)
                self.check_clients()
            if self.script.engine.state.resolution is not None:
                self.script.resolve()
            self.script.wait(1_000)
        assert all(client.is_settled for client in self.clients), self.script.story()
        assert self.script.view().state in ("Stable", "Empty", "Dead"), self.script.story()
        owned = Counter(partition for client in self.clients for partition in client.owned)
        topics = {topic for client in self.clients for topic in client.topics}
        assert owned == Counter((t, n) for t in topics for n in range(COUNTS[t])), (
            self.script.story()
        )


@pytest.mark.parametrize("seed", range(60))
def test_clients_that_behave_are_served(seed: int) -> None:
    """Whoever comes, goes, crashes, restarts with another protocol, or loses an answer; also when
    the group is loaded from its log at any time."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.settle()
    walk.script.check_replay()
