"""A simulated world without faults, to put clients into by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from coordinator.interface.config import GroupConfig
from coordinator.interface.topics import Partition
from kafka_codecs.declaration import Struct
from tests.simulation.broker_profiles import KAFKA_4_3
from tests.simulation.classic_client import ClassicClient
from tests.simulation.client import Client, Spec
from tests.simulation.librdkafka_client import LibrdkafkaClient
from tests.simulation.native_client import NativeClient
from tests.simulation.plan import Plan
from tests.simulation.run import Run

PEACEFUL = Plan(
    config=GroupConfig(
        classic_min_session_timeout_ms=1_000,
        classic_initial_rebalance_delay_ms=0,
        consumer_session_timeout_ms=5_000,
        consumer_heartbeat_interval_ms=1_000,
        consumer_assignment_interval_ms=0,
        reconnect_timeout_ms=0,
        lost_commit_hold_ms=None,
    ),
    pause_ms_max=1_000,
    classic_style="eager",
    native_share=0.5,
    static_share=0.0,
    regex_share=0.0,
    loss_rate=0.0,
    late_rate=0.0,
    slow_rate=0.0,
    cluster_failure_rate=0.0,
    lost_answer_rate=0.0,
    commit_ms_max=60,
    log_failure_rate=0.0,
    slow_log_rate=0.0,
    anchor_linger_ms=60_000,
    has_crashes=False,
    has_freezes=False,
    has_misbehaviour=False,
    has_topic_changes=False,
    has_policy_changes=False,
    error_rate=0.0,
    log_doubt_rate=0.0,
    has_takeovers=False,
    has_pauses=False,
    has_two_gateways=False,
    has_clock_jumps=False,
    has_racks=False,
    profile=replace(KAFKA_4_3, initial_rebalance_delay_ms=0),
)

C = TypeVar("C", bound=Client)


class Stage(Run):
    """One topic `foo` with four partitions; `wait` lets time pass."""

    def __init__(self, seed: int = 0, plan: Plan = PEACEFUL) -> None:
        super().__init__(seed, plan)
        self.cluster.create("foo", 4)

    def native(self, name: str, **how: Any) -> NativeClient:
        return self._start(NativeClient(self.context, name, _spec(how)))

    def librdkafka(self, name: str, **how: Any) -> LibrdkafkaClient:
        return self._start(LibrdkafkaClient(self.context, name, _spec(how)))

    def classic(self, name: str, **how: Any) -> ClassicClient:
        return self._start(ClassicClient(self.context, name, _spec(how)))

    def misbehaving(self, kind: type[C], name: str, **how: Any) -> C:
        """A client of one of the kinds in `misbehaviour.py` starts."""
        return self._start(kind(self.context, name, _spec(how)))

    def _start(self, client: C) -> C:
        self.clients.append(client)
        client.start()
        return client

    def wait(self, length_ms: int = 6_000) -> None:
        """Let happen what happens."""
        self.world.run_until(self.world.now_ms + length_ms)

    def silence_the_coordinator(self) -> None:
        """Leave the anchor without answers, so that the gateway withholds all partitions."""

        def ask(_message: Struct, answered: Callable[[Struct | None, int], None]) -> None:
            self.world.after(100, answered, None, 0)

        self.cluster.ask_coordinator = ask  # type: ignore[method-assign, assignment]

    def end_the_silence(self) -> None:
        """Let the coordinator answer again."""
        del self.cluster.ask_coordinator

    def foo(self, *numbers: int) -> set[Partition]:
        """Partitions of the topic."""
        topic_id = self.cluster.topics.by_name["foo"].topic_id
        return {Partition(topic_id, number) for number in numbers}


def _spec(how: dict[str, Any]) -> Spec:
    return Spec(**{"topics": ("foo",), "callback_ms": 0, "heartbeat_interval_ms": 500, **how})
