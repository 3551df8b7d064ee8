"""Random actions on clients, topics, the gateway and the cluster, each drawn by its weight."""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

from coordinator.handlers.group_configs import ASSIGNMENT_INTERVAL, SESSION_TIMEOUT
from coordinator.interface.config import MigrationPolicy
from coordinator.interface.events import (
    ConfigChange,
    ConfigOperation,
    ConfigsReceived,
    DeleteGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    Request,
)
from coordinator.interface.roll_policy import RollMode
from coordinator.interface.topics import Partition
from tests.simulation.careless import Careless, CarelessClassic, CarelessNative
from tests.simulation.classic_client import ClassicClient
from tests.simulation.client import RETRY_MS, Client, ClientContext, Spec
from tests.simulation.cluster import Positions
from tests.simulation.connection import ADMIN, Ask
from tests.simulation.driver import Answer, Driver
from tests.simulation.librdkafka_classic_client import LibrdkafkaClassicClient
from tests.simulation.librdkafka_client import LibrdkafkaClient
from tests.simulation.misbehaviour import DISHONEST
from tests.simulation.native_client import NativeClient
from tests.simulation.network import Line
from tests.simulation.plan import CLIENTS_MAX, TOPIC_NAMES, Plan, draw_spec, draw_topics
from tests.simulation.process import Process

NATIVE: tuple[type[Client], ...] = (NativeClient, LibrdkafkaClient, CarelessNative)
CLASSIC: tuple[type[Client], ...] = (ClassicClient, ClassicClient, CarelessClassic)
FROZEN_MS_MAX = 12_000
STALLED_MS_MAX = 12_000
"""How long a client stays out of the group after its application polled too late."""
DOWN_MS_MAX = 1_500
RESTART_MS_MAX = 3_000
FIRST_CLIENTS = 3
FIRST_CLIENTS_MS_MAX = 2_000
RESET_OFFSET_MAX = 30
CONFIG_VALUES = (
    (SESSION_TIMEOUT, (None, "4000", "10000")),
    (ASSIGNMENT_INTERVAL, (None, "0", "3000")),
)
INTRUSION_MS_MAX = 14_000
PAUSE_MS_MAX = 6_000
ADOPTION_TRIES = 20
OUTSIDE_MS_MAX = 12_000
DISTURBED_WITHIN_MS = (100, 1_000, 6_000)
"""How soon after the order for a move something else happens, at most."""
CLOCKS_AHEAD_MS = (0, -600_000, 600_000)
"""Offsets of the gateway's clock after a restart. Each jump is longer than a run."""


class RandomActions:
    """Acts at random times until `stop`."""

    def __init__(
        self, context: ClientContext, driver: Driver, plan: Plan, clients: list[Client]
    ) -> None:
        self._context, self._world = context, context.world
        self._driver, self._plan, self._clients = driver, plan, clients
        self._cluster = context.network.cluster
        self._names = 0
        self._instances = 0
        self._native_share = plan.native_share
        self._is_over = False
        self._admin = Line(context.network, ADMIN)
        self._weights = self._weights_of_actions()

    def begin(self) -> None:
        """Create topics and start the first clients. An admin may reset offsets meanwhile."""
        self._cluster.create("foo", self._world.between(1, 4))
        self._cluster.create("bar", self._world.between(1, 4))
        for _ in range(FIRST_CLIENTS):
            self._world.after(self._world.between(0, FIRST_CLIENTS_MS_MAX), self._come)
        if self._plan.has_resets:
            self._world.after(self._world.between(0, FIRST_CLIENTS_MS_MAX), self._reset_offsets)
        self._next()

    def stop(self) -> None:
        """End all random actions."""
        self._is_over = True

    def reinforce(self) -> None:
        """Start one more client of each protocol, so that the group is not empty and notices topic
        changes. Sometimes skip this, because new clients may hide a mistake."""
        if self.pick() is not None and self._world.chance(0.3):
            return
        for is_native in (False, True):
            instance_id = "last" if is_native and self._world.chance(0.5) else None
            self.start(draw_spec(self._world, self._plan, instance_id), is_native=is_native)

    def _next(self) -> None:
        self._world.after(self._world.between(1, self._plan.pause_ms_max), self._act)

    def _act(self) -> None:
        if self._is_over:
            return
        weights = self._weights
        weights[self._come] = 4 if len(self._clients) < CLIENTS_MAX else 0.3
        action = self._world.dice.choices([*weights], [*weights.values()])[0]
        action()
        self._next()

    def _weights_of_actions(self) -> dict[Callable[[], None], float]:
        plan = self._plan
        weights: dict[Callable[[], None], float] = {
            self._come: 4,
            self._go: 3,
            self._roll: 5,
            self._die: 2,
            self._cut: 2 * bool(plan.loss_rate),
            self._resubscribe: 1.5,
            self._stall: 1.5,
            self._freeze: 2 * plan.has_freezes,
            self._crash: 1 * plan.has_crashes,
            self._set_policy: 0.7 * plan.has_policy_changes,
            self._steer: 1 * plan.has_policy_changes,
            self.intrude: 0.5 * plan.has_takeovers * plan.holds_anchors,
            self._cluster.remove_anchor: 0.7 * plan.has_takeovers * plan.holds_anchors,
            self._pause: 0.7 * plan.has_pauses,
            self._take_the_log: 0.7 * plan.has_two_gateways * plan.holds_anchors,
            self._move_replica: 1 * plan.has_racks,
            self._take_slot: 4 * bool(plan.static_share),
            self._grow: 1 * plan.has_topic_changes,
            self._vanish: 0.4 * plan.has_topic_changes,
            self._appear: 0.8 * plan.has_topic_changes,
            self._change_native_share: 1,
            self._misbehave: 5 * plan.has_misbehaviour,
            self._duplicate: 0.4 * plan.has_misbehaviour,
            self._remove_by_admin: 0.4 * (not plan.has_moves),
            self._set_config: 0.5 * (not plan.has_moves),
            self._delete_group: 0.2 * (not plan.has_moves),
            self._reset_offsets: 1 * plan.has_resets * (not plan.has_moves),
            self._adopt: 3 * plan.has_moves,
            self._release: 3 * plan.has_moves,
            self._reconfigure: 0.6 * plan.has_moves * plan.has_crashes,
            self._move_coordinator: 0.7 * plan.has_moves,
            self.come_directly: 0.5 * plan.has_outsiders,
            self._lose_coordinator: 8 * plan.has_turns,
        }
        return {action: weight for action, weight in weights.items() if weight}

    # -- clients ---------------------------------------------------------------------------------

    def start(self, spec: Spec, *, is_native: bool, before: Client | None = None) -> Client:
        """Start a client of one of the two protocols, perhaps in place of one `before`."""
        kinds = NATIVE if is_native else CLASSIC
        if self._plan.has_moves and not is_native:
            kinds = (*kinds, LibrdkafkaClassicClient)
        return self._start(self._world.dice.choice(kinds), spec, before)

    def _start(self, kind: type[Client], spec: Spec, before: Client | None = None) -> Client:
        self._clients[:] = [client for client in self._clients if not client.is_dead]
        self._names += 1
        client = kind(self._context, f"{kind.kind[0]}{self._names}", spec)
        if before is not None and isinstance(client, Careless):
            client.come_back_as(before)
        elif before is not None:
            client.client_id = before.client_id
        self._clients.append(client)
        self._world.trace(client.name, spec)
        client.start()
        return client

    def pick(self) -> Client | None:
        """A random living honest client, or None. Misbehaving clients act by themselves."""
        alive = [client for client in self._clients if client.is_honest and not client.is_dead]
        return self._world.dice.choice(alive) if alive else None

    def _wants_native(self) -> bool:
        return self._world.chance(self._native_share)

    def _change_native_share(self) -> None:
        """Change the share of native clients among those that start from now on."""
        self._native_share = self._world.dice.choice([0.0, 0.5, 1.0])
        self._world.trace("operator", f"wants {self._native_share:.0%} native clients")

    def _come(self) -> None:
        spec = draw_spec(self._world, self._plan, self._instance_id())
        self.start(spec, is_native=self._wants_native())

    def _instance_id(self) -> str | None:
        if not self._world.chance(self._plan.static_share):
            return None
        return self._new_instance_id()

    def _new_instance_id(self) -> str:
        self._instances += 1
        return f"i{self._instances}"

    def _go(self) -> None:
        client = self.pick()
        if client is not None and not client.is_closing:
            client.later(0, client.close)

    def _misbehave(self) -> None:
        """Start a client that breaks the protocol."""
        if sum(not client.is_honest and not client.is_dead for client in self._clients) < 2:
            kind = self._world.dice.choice(DISHONEST)
            self._start(kind, draw_spec(self._world, self._plan, self._instance_id()))

    def _duplicate(self) -> None:
        """Start a second client with the instance id of another."""
        static = [c for c in self._clients if c.spec.instance_id is not None and not c.is_dead]
        if static:
            self.start(self._world.dice.choice(static).spec, is_native=self._wants_native())

    def _roll(self) -> None:
        """Restart a client, perhaps with the other protocol."""
        client = self.pick()
        if client is not None and not client.is_closing:
            client.later(0, client.close)
            self._start_again(client)

    def _die(self) -> None:
        client = self.pick()
        if client is not None:
            client.die("killed")
            if self._world.chance(0.7):
                self._start_again(client)

    def _start_again(self, client: Client) -> None:
        def again() -> None:
            if self._is_over:
                return
            if not client.is_dead:
                self._world.after(RESTART_MS_MAX, again)
            else:
                self.start(client.spec, is_native=self._wants_native(), before=client)

        self._world.after(self._world.between(1, RESTART_MS_MAX), again)

    def _cut(self) -> None:
        client = self.pick()
        if client is not None:
            client.lose_connection()

    def _lose_coordinator(self) -> None:
        """Let a native client look for its coordinator."""
        client = self.pick()
        if isinstance(client, NativeClient):
            client.later(0, client.lose_coordinator)

    def _resubscribe(self) -> None:
        client = self.pick()
        if client is not None and not client.is_closing:
            client.later(0, client.subscribe, draw_topics(self._world))

    def _stall(self) -> None:
        """Let the application of a dynamic client poll too late."""
        client = self.pick()
        if client is not None and client.spec.instance_id is None:
            client.later(0, client.stall, self._world.between(100, STALLED_MS_MAX))

    def _take_slot(self) -> None:
        """Let a static native client rejoin as a new instance, or as one whose client is dead or
        classic."""
        static = [
            client
            for client in self._clients
            if isinstance(client, NativeClient)
            and client.spec.instance_id is not None
            and client.is_honest
            and client.may_commit
            and not (client.is_closing or client.is_dead)
        ]
        if not static:
            return
        client = self._world.dice.choice(static)
        others = [
            other.spec.instance_id
            for other in self._clients
            if other.spec.instance_id not in (None, client.spec.instance_id)
            and (other.is_dead or isinstance(other, ClassicClient))
        ]
        instance_id = self._world.dice.choice([*others, *others, self._new_instance_id()])
        client.later(0, client.take_slot, instance_id)

    def _freeze(self) -> None:
        client = self.pick()
        if client is not None and not client.is_frozen:
            client.freeze()
            self._world.after(self._world.between(500, FROZEN_MS_MAX), client.thaw)

    # -- the gateway and the cluster -------------------------------------------------------------

    def _crash(self) -> None:
        if self._driver.is_up:
            down_ms = self._world.between(1, DOWN_MS_MAX)
            self._driver.crash(down_ms, clock_ahead_ms=self._next_clock_ms())

    def _next_clock_ms(self) -> int | None:
        """The clock offset of the gateway's next process; None keeps the clock."""
        jumps = self._plan.has_clock_jumps
        return self._world.dice.choice(CLOCKS_AHEAD_MS) if jumps else None

    def intrude(self) -> None:
        """Let a consumer that bypasses the gateway take the anchor's slot."""
        if not self._cluster.has_intruder:
            process = self._driver.process
            is_held = process.group.anchor.ids(process.now_ms) is not None
            self._cluster.intrude()
            stay_ms = self._world.between(50, INTRUSION_MS_MAX)
            self._world.after(stay_ms, self._end_intrusion, process if is_held else None)

    def _end_intrusion(self, held_by: Process | None) -> None:
        """Let the intruder commit and leave. It reads what our members have lost, or what they will
        lose once the anchor of this process rejoins: only a process that held the group before can
        see that another member has had it, unless its joins have no answers (DEV D36). It reads
        nothing before it has its assignment (seed 2026210877), nor what members have whose requests
        are relayed (seed 2026201318)."""
        state = self._driver.engine.state
        is_same = self._driver.is_up and held_by is self._driver.process
        will_see = is_same and not self._cluster.failure_rate
        has_nobody = state.group is None or not state.group.members
        there = self._cluster.group
        is_alone = there.has_intruder and not there.has_clients_of_gateway
        if is_alone and there.intruder_reads and (has_nobody or will_see):
            self._cluster.consume_elsewhere()
        self._cluster.end_intrusion()

    def _adopt(self) -> None:
        self.move(to_cluster=False)

    def _release(self) -> None:
        self.move(to_cluster=True)

    def move(self, *, to_cluster: bool | None = None, is_disturbed: bool = True) -> None:
        """Have the group adopted or released: by default whatever it is not now."""
        if not self._driver.is_up:
            return
        process = self._driver.process
        if to_cluster is None:
            to_cluster = process.group.is_live
        if to_cluster:
            process.when_awake(process.release)
        else:
            process.when_awake(partial(process.adopt, ADOPTION_TRIES))
        if is_disturbed:
            self._disturb()

    def _disturb(self) -> None:
        """Let something happen at any step of a move."""
        plan = self._plan
        disturbances: dict[Callable[[], None], float] = {
            self._crash: 3,
            self._pause: 1,
            self._take_the_log: 0.5,
            self._cluster.remove_anchor: 0.7 * plan.has_takeovers,
            self._move_coordinator: 1,
            self._come: 1,
            self._die: 1,
            self._go: 1,
            self._cut: 0.5,
            self._freeze: 0.5,
            self._lose_the_coordinator: 1,
            self.come_directly: 3 * plan.has_outsiders,
        }
        happens = self._world.dice.choices([*disturbances], [*disturbances.values()])[0]
        within_ms = self._world.dice.choice(DISTURBED_WITHIN_MS)
        self._world.after(self._world.between(0, within_ms), happens)

    def come_directly(self) -> None:
        """Start a consumer that bypasses the gateway, and stays for some time only."""
        self._world.counts["outsiders"] += 1
        spec = draw_spec(self._world, self._plan, None)
        self._names += 1
        outsider = ClassicClient(self._context, f"out{self._names}", spec)
        outsider.bypass_gateway()
        self._clients.append(outsider)
        self._world.trace(outsider.name, spec)
        outsider.start()
        outsider.later(self._world.between(500, OUTSIDE_MS_MAX), outsider.close)

    def _lose_the_coordinator(self) -> None:
        """Leave requests of the gateway without answers for a moment."""
        before, self._cluster.failure_rate = self._cluster.failure_rate, 0.5
        self._world.after(self._world.between(1, 500), self._find_the_coordinator, before)

    def _find_the_coordinator(self, failure_rate: float) -> None:
        self._cluster.failure_rate = 0.0 if self._is_over else failure_rate

    def _reconfigure(self) -> None:
        if self._driver.is_up:
            self._driver.reconfigure(self._world.between(1, DOWN_MS_MAX))

    def _move_coordinator(self) -> None:
        self._world.counts["coordinators moved"] += 1
        self._world.trace("cluster", "moves the group to another coordinator")
        self._cluster.group.move()

    def _pause(self) -> None:
        if self._driver.is_up and not self._driver.process.is_paused:
            self._driver.pause(self._world.between(500, PAUSE_MS_MAX))

    def _take_the_log(self) -> None:
        if self._driver.is_up:
            self._driver.take_over()

    def _move_replica(self) -> None:
        self._cluster.move_replica(self._world.dice.choice(sorted(self._cluster.topics.by_name)))

    def _set_policy(self) -> None:
        if self._driver.is_up:
            policy = self._world.dice.choice([*MigrationPolicy])
            self._driver.crash(self._world.between(1, DOWN_MS_MAX), policy)

    def _steer(self) -> None:
        """Let an operator hold, pause or allow the migration of the group."""
        policy = self._world.dice.choice((RollMode.HOLD, RollMode.PAUSE, RollMode.ALLOW))
        token = self._context.network.next_token()
        self._ask_as_admin(ConfigsReceived(token=token, policy=policy))

    def allow(self) -> None:
        """End what an operator has set, in as many tries as it takes."""
        token = self._context.network.next_token()
        request = ConfigsReceived(token=token, policy=RollMode.ALLOW)
        self._ask_as_admin(request, again=self.allow)

    def _grow(self) -> None:
        self._cluster.grow(self._world.dice.choice(sorted(self._cluster.topics.by_name)))

    def _vanish(self) -> None:
        names = sorted(self._cluster.topics.by_name)
        if len(names) > 1:
            self._cluster.delete(self._world.dice.choice(names))

    def _appear(self) -> None:
        missing = [name for name in TOPIC_NAMES if name not in self._cluster.topics.by_name]
        if missing:
            self._cluster.create(self._world.dice.choice(missing), self._world.between(1, 4))

    # -- admins ----------------------------------------------------------------------------------

    def _remove_by_admin(self) -> None:
        static = [c for c in self._clients if c.spec.instance_id is not None]
        if static:
            leaver = Leaver(
                member_id="", instance_id=self._world.dice.choice(static).spec.instance_id
            )
            token = self._context.network.next_token()
            self._ask_as_admin(LeaveGroupReceived(token=token, members=(leaver,)))

    def _set_config(self) -> None:
        """Override the group's session timeout or assignment interval, or delete an override."""
        key, values = self._world.dice.choice(CONFIG_VALUES)
        value = self._world.dice.choice(values)
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = ConfigChange(name=key.name, operation=operation, value=value)
        token = self._context.network.next_token()
        self._ask_as_admin(ConfigsReceived(token=token, changes=(change,)))

    def _delete_group(self) -> None:
        token = self._context.network.next_token()
        if self._world.chance(0.5):
            self._ask_as_admin(OffsetDeleteReceived(token=token, topic_names=TOPIC_NAMES))
        else:
            self._ask_as_admin(DeleteGroupReceived(token=token))

    def _reset_offsets(self) -> None:
        """Commit random offsets of one topic. The engine refuses this unless the group is empty."""
        topic = self._world.dice.choice(list(self._cluster.topics.by_name.values()))
        positions = {
            Partition(topic.topic_id, number): self._world.between(0, RESET_OFFSET_MAX)
            for number in range(topic.partition_count)
        }
        commit = OffsetCommitReceived(
            token=self._context.network.next_token(),
            version=9,
            member_id="",
            instance_id=None,
            epoch=-1,
            partitions=frozenset(positions),
        )
        self._ask_as_admin(commit, positions)

    def _ask_as_admin(
        self,
        request: Request,
        positions: Positions = MappingProxyType({}),
        *,
        again: Callable[[], None] | None = None,
    ) -> None:
        """`again` follows an error or a lost answer."""
        self._world.trace("admin", request)

        def on_answer(answer: Answer) -> None:
            self._world.trace("admin hears", answer.reply)
            if answer.reply.error:
                on_loss()

        def on_loss() -> None:
            if again is not None:
                self._world.after(RETRY_MS, again)

        self._admin.send(Ask(request=request, heard=on_answer, lost=on_loss, positions=positions))
