"""Groups that are adopted while a fault happens and outsiders come, at random moments."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import trio

from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import CommandRefused
from tests.e2e.adopted_groups import LONG_SESSIONS, adopt, begin_in_cluster
from tests.support.clients import Client
from tests.support.group_client import fresh_group
from tests.support.group_stage import GroupStage, open_groups
from tests.support.kafka_broker import KafkaCluster

ROUND_LIMIT_S = 400
CLASSIC = Client(library="librdkafka")
NATIVE = Client(library="librdkafka", protocol="consumer")
GO = Client(library="franz-go")
SECOND = {"librdkafka": CLASSIC, "franz-go": GO, "java": Client(library="java")}
"""What the second of the two members of each group may be."""
OUTSIDER = "outsider"
START_S = 1.5
"""When the first adoption begins."""
JOINS_S = 0.8
"""An outsider starts at most this long before the adoption. It takes half of that to join, so it
comes before, during or after."""
ADOPTION_S = 0.2
"""Somewhat longer than an adoption takes."""
RESUME_S = 2.5
"""About as long as a gateway takes to start and to continue with what it finds."""
KILLS_MAX = 3
HANG_S = 3.0
STAYS_S = 3.0
SHORT_SESSIONS = "--session-timeout-ms=6000"
"""The flag of consumers that are killed."""
Fault = Literal["none", "kill", "hang", "broker", "consumer"]
"""At a random moment nothing happens, or the gateway is killed, perhaps again while it continues,
or all brokers hang for a while, or one broker is killed, or one consumer of each group."""


class Round:
    """Some groups, and how their adoptions ended."""

    def __init__(
        self,
        kafka: KafkaCluster,
        folder: Path,
        seed: int,
        fault: Fault,
        second: str = CLASSIC.library,
    ) -> None:
        self.ends: Counter[str] = Counter()
        self.kills = 0
        """How often the gateway was killed."""
        self.held_ms: list[int] = []
        self._kafka, self._folder, self._fault = kafka, folder, fault
        self._dice = random.Random(seed)
        self._members = {"a": CLASSIC, "b": SECOND[second]}

    async def play(self, group_count: int) -> None:
        flags = [SHORT_SESSIONS] if self._fault == "consumer" else []
        names = [fresh_group(f"loop-{number}") for number in range(group_count)]
        async with open_groups(self._kafka, names, self._folder, limit_s=ROUND_LIMIT_S) as groups:
            async with trio.open_nursery() as nursery:
                for group in groups:
                    nursery.start_soon(begin_in_cluster, self._kafka, group, self._members, *flags)
            for group in groups:
                await group.wait_until_settled("classic")
            async with trio.open_nursery() as nursery:
                for number, group in enumerate(groups):
                    nursery.start_soon(self._adopt, group)
                    if number % 2:
                        native = self._kafka.has_new_protocol and number % 4 == 3
                        nursery.start_soon(self._intrude, group, NATIVE if native else CLASSIC)
                nursery.start_soon(self._disturb, groups)
            await trio.sleep(STAYS_S)
            for group in groups:
                if OUTSIDER in group.members:
                    await group.leave(OUTSIDER)
            for group in groups:
                await group.wait_until_settled("classic")
                await group.progress()
            for event in ("adoption_resumed", "adoption_undone", "group_adopted"):
                self.ends[event] += len(groups[0].gateway.events(event))
            produced = await groups[0].stop_producer()
            for group in groups:
                await group.end_after(produced)

    async def _adopt(self, group: GroupStage) -> None:
        await trio.sleep(START_S + self._dice.uniform(0, ADOPTION_S))
        try:
            answer = await adopt(self._folder, group.group)
        except (CommandRefused, NoControlSocket):
            self.ends["no answer"] += 1
            return
        if answer.is_adopted:
            self.ends["adopted"] += 1
            self.held_ms.append(answer.held_ms or 0)
        else:
            self.ends[
                "; ".join(reason.partition(": ")[2] or reason for reason in answer.reasons)
            ] += 1

    async def _intrude(self, group: GroupStage, client: Client) -> None:
        await trio.sleep(START_S - self._dice.uniform(0, JOINS_S))
        flags = (LONG_SESSIONS,) if client is CLASSIC else ()
        await group.join(OUTSIDER, client, *flags, beside=True)

    async def _disturb(self, groups: Sequence[GroupStage]) -> None:
        with trio.move_on_after(2 * START_S):  # outsiders may prevent all of them
            await groups[0].gateway.until_event("adoption_started")
        await trio.sleep(self._dice.uniform(0, 1.5 * ADOPTION_S))
        brokers = tuple(self._kafka.brokers.values())
        match self._fault:
            case "kill":
                gateway = groups[0].gateway
                for _ in range(self._dice.randint(1, KILLS_MAX)):
                    self.kills += 1
                    await gateway.kill()
                    await gateway.start()
                    await trio.sleep(self._dice.uniform(0, RESUME_S))
            case "hang":
                for broker in brokers:
                    broker.pause()
                await trio.sleep(HANG_S)
                for broker in brokers:
                    broker.resume()
            case "broker":
                await self._dice.choice(brokers).kill()
                await self._kafka.start()
            case "consumer":
                for group in groups:
                    await group.kill("b")
            case "none":
                pass
