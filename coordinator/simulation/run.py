"""One run: a seed in, an outcome out. Chaos first, then peace, in which everything must settle, and
settle again after each step of a calm roll.

`simulate` is a plain function of a seed, to be called in any process.
"""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.events import Request
from coordinator.simulation import transcript
from coordinator.simulation.client import Client, ClientContext
from coordinator.simulation.cluster import Cluster
from coordinator.simulation.driver import Driver
from coordinator.simulation.exempt_claims import ExemptClaims
from coordinator.simulation.final_roll import roll_to_classic
from coordinator.simulation.invariants import BrokenInvariantError, Invariant
from coordinator.simulation.network import Network
from coordinator.simulation.plan import CHAOS_MS, Plan, draw_plan
from coordinator.simulation.random_actions import RandomActions
from coordinator.simulation.settling import settle
from coordinator.simulation.watch import Watch
from coordinator.simulation.watch_owners import OwnerWatch
from coordinator.simulation.world import World
from coordinator.topics import Partition

TAIL_LINES = 60
LAG_MS_WHEN_LOG_FAILS = 5_000
"""How late deadlines may be then: each failure postpones them by a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `invariant` is None if nothing broke, otherwise `transcript` tells its end.

    `counts` says how much happened. "events" are all that the engine was asked to handle, and
    "requests" those that clients sent; for "rebalances" and "moves" see `run_costs.py`.
    "convergence ms" is what it took from the last fault until every member was at rest, and is
    missing if that never came.
    "stale ms" is the time in which a removed client that had not heard of it believed in a
    partition that somebody else owned by then.
    """

    seed: int
    invariant: str | None = None
    detail: str = ""
    transcript: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Run:
    """The world of one seed, put together; the seed draws the plan as well, unless it is given."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.world = world = World(seed)
        self.plan = plan = plan or draw_plan(world)
        self.clients: list[Client] = []
        self.cluster = Cluster(world, stored=self._stored)
        self.driver = Driver(world, self.cluster, plan.config)
        self.network = Network(world, self.driver, self.cluster, overtaken=self._overtaken)
        lies: set[bytes] = set()
        self.exempt_claims = ExemptClaims(
            world, self.clients, lambda: self.driver.engine.state, lies
        )
        self.owners = OwnerWatch(
            world, self.cluster, self.clients, lambda: self.driver.engine.state, self.exempt_claims
        )
        self.watch = Watch(world, self.driver, self.network, self.owners)
        self.driver.observer = self.watch
        self.context = ClientContext(
            world=world,
            network=self.network,
            owning=self.owners.check,
            known_ids=lambda: [client.member_id for client in self.clients],
            lies=lies,
        )
        self.random_actions = RandomActions(self.context, self.driver, plan, self.clients)
        self._begin_faults(plan)

    def _begin_faults(self, plan: Plan) -> None:
        self.network.loss_rate, self.network.late_rate = plan.loss_rate, plan.late_rate
        self.network.slow_rate, self.network.withheld_rate = plan.slow_rate, plan.withheld_rate
        self.cluster.lost_answer_rate = plan.lost_answer_rate
        self.cluster.delay_ms_max = plan.commit_ms_max
        self.network.error_rate = plan.error_rate
        self.cluster.has_racks = plan.has_racks
        self.driver.log_failure_rate, self.driver.linger_ms = plan.log_failure_rate, plan.linger_ms
        self.driver.log_doubt_rate = plan.log_doubt_rate
        if plan.log_failure_rate:
            self.watch.silence.lag_ms = LAG_MS_WHEN_LOG_FAILS

    def play(self) -> None:
        """Raises BrokenInvariantError."""
        self.world.tell("plan", self.plan)
        self.random_actions.begin()
        self.world.run_until(self.world.now_ms + CHAOS_MS)
        settle(self)
        roll_to_classic(self)

    def _stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        self.owners.stored(name, partition, before, now)

    def _overtaken(self, name: str, request: Request) -> None:
        self.owners.overtaken(name, request)


def simulate(seed: int, *, tail_lines: int = TAIL_LINES) -> Outcome:
    """Play one seed to its end, or to the first invariant that breaks."""
    run = Run(seed)
    try:
        run.play()
    except BrokenInvariantError as broken:
        invariant, detail = broken.invariant, broken.detail
    except Exception:  # whatever it is: the seed that brings it out is what counts
        invariant, detail = Invariant.NO_ERROR, traceback.format_exc()
    else:
        return Outcome(seed=seed, counts=dict(run.world.counts))
    lines = transcript.tail(run.world, run.cluster, tail_lines)
    return Outcome(
        seed=seed,
        invariant=str(invariant),
        detail=transcript.readable(detail, run.cluster),
        transcript=lines,
        counts=dict(run.world.counts),
    )
