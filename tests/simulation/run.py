"""Plays one run: a pure function from a seed to an outcome.

Faults come first. Then they stop, and the group must settle, and settle again after each step of a
roll without faults.
"""

import traceback
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from coordinator.interface.events import Request
from coordinator.interface.topics import Partition
from tests.simulation import transcript
from tests.simulation.client import Client, ClientContext
from tests.simulation.cluster import Cluster, Commit
from tests.simulation.driver import Driver
from tests.simulation.exempt_claims import ExemptClaims
from tests.simulation.final_moves import move_about
from tests.simulation.final_roll import roll_to_classic
from tests.simulation.invariants import BrokenInvariantError, Invariant
from tests.simulation.network import Network
from tests.simulation.plan import CHAOS_MS, PLUG_IN_FAILURE_RATE, Plan, draw_plan
from tests.simulation.process import GRACE_MS_MAX
from tests.simulation.random_actions import PAUSE_MS_MAX, RandomActions
from tests.simulation.settling import settle
from tests.simulation.state_log import SLOW_WRITE_MS_MAX
from tests.simulation.watch import Watch
from tests.simulation.watch_answers import AnswerWatch
from tests.simulation.watch_members import TIMER_LAG_MS
from tests.simulation.watch_owners import OwnerWatch
from tests.simulation.whereabouts import Whereabouts
from tests.simulation.world import TRANSCRIPT_LINES_MAX, World

TAIL_LINES = 60
LAG_MS_WHEN_LOG_FAILS = 5_000
"""The longest delay of a deadline in a run with log failures. Each failure adds a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run. `invariant` is the broken one, where `transcript` ends, or None.

    `counts` has, among others, "events" that the engine handled, "requests" that clients sent, and
    "rebalances" and "moves" (see `run_costs.py`). "convergence ms" is the time from the last fault
    until all members had settled; a run that did not settle has none. "stale ms" is the time in
    which removed clients still considered themselves owners of partitions that others owned.
    """

    seed: int
    invariant: str | None = None
    detail: str = ""
    transcript: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def replay_command(seed: int) -> str:
    """The command that plays exactly this seed again."""
    return f"poe simulate --seeds 1 --first-seed {seed}"


class Run:
    """The parts of one run. The seed also draws the plan, unless one is given. The transcript keeps
    only the lines that may be read, so that nothing else outlives its use."""

    def __init__(
        self,
        seed: int,
        plan: Plan | None = None,
        *,
        transcript_lines: int = TRANSCRIPT_LINES_MAX,
    ) -> None:
        self.world = world = World(seed, transcript_lines)
        self.plan = plan = plan or draw_plan(world)
        self.clients: list[Client] = []
        self.cluster = Cluster(
            world,
            holds_anchors=plan.holds_anchors,
            profile=plan.profile,
            config=plan.config,
            stored=self._on_stored,
        )
        self.driver = Driver(
            world,
            self.cluster,
            plan.config,
            anchor_linger_ms=plan.anchor_linger_ms,
            host_patterns=("*",) if plan.hosts_all else (),
            adoption=plan.adopts,
        )
        self.whereabouts = Whereabouts(self.driver, self.cluster)
        self.answers = AnswerWatch(
            self.cluster,
            self.clients,
            lambda: self.whereabouts.state,
            lambda: self.exempt_claims.partitions,
            self._heirs,
        )
        self.network = Network(
            world,
            self.driver,
            self.cluster,
            overtaken=self._overtaken,
            leaves=self.answers.leaves,
            fetched=self.answers.check_fetch,
        )
        lies: set[bytes] = set()
        self.exempt_claims = ExemptClaims(
            world, self.clients, lambda: self.whereabouts.state, lies, self.whereabouts
        )
        self.owners = OwnerWatch(
            world,
            self.cluster,
            self.clients,
            lambda: self.whereabouts.state,
            self.exempt_claims,
            self.whereabouts,
        )
        self.cluster.group.on_step = self.owners.after_step_of_cluster
        self.watch = Watch(world, self.driver, self.network, self.owners)
        self.context = ClientContext(
            world=world,
            network=self.network,
            claims_moved=self.owners.check,
            known_ids=lambda: [client.member_id for client in self.clients],
            lies=lies,
        )
        self.random_actions = RandomActions(self.context, self.driver, plan, self.clients)
        self._begin_faults(plan)

    def _begin_faults(self, plan: Plan) -> None:
        self.network.loss_rate, self.network.late_rate = plan.loss_rate, plan.late_rate
        self.network.slow_rate, self.network.error_rate = plan.slow_rate, plan.error_rate
        self.cluster.lost_answer_rate = plan.lost_answer_rate
        self.cluster.delay_ms_max = plan.commit_ms_max
        self.cluster.failure_rate = plan.cluster_failure_rate
        self.cluster.has_racks = plan.has_racks
        if plan.has_plug_in:
            self.driver.around.plug_in_failure_rate = PLUG_IN_FAILURE_RATE
        log = self.driver.log
        log.failure_rate, log.doubt_rate = plan.log_failure_rate, plan.log_doubt_rate
        log.slow_rate = plan.slow_log_rate
        self.watch.silence.lag_ms = _lag_ms(plan)

    def play(self) -> None:
        """Raises BrokenInvariantError."""
        self.world.trace("plan", self.plan)
        self.random_actions.begin()
        self.world.run_until(self.world.now_ms + CHAOS_MS)
        settle(self)
        move_about(self)
        roll_to_classic(self)

    def _on_stored(self, name: str, partition: Partition, before: int, now: int) -> None:
        self.owners.check_stored(name, partition, before, now)

    def _heirs(self, commit: Commit) -> Set[str]:
        return self.owners.heirs(commit)

    def _overtaken(self, name: str, request: Request) -> None:
        self.owners.overtaken(name, request)


def _lag_ms(plan: Plan) -> int:
    """The longest delay with which the gateway handles a deadline. Each failure of the log adds a
    second, a slow write its length, and a pause its length and grace."""
    lag_ms = TIMER_LAG_MS
    if plan.log_failure_rate or plan.log_doubt_rate:
        lag_ms += LAG_MS_WHEN_LOG_FAILS
    if plan.slow_log_rate:
        lag_ms += 3 * SLOW_WRITE_MS_MAX
    if plan.has_pauses or plan.has_moves:
        lag_ms += 3 * (PAUSE_MS_MAX + GRACE_MS_MAX)
    return lag_ms


def simulate(seed: int, *, tail_lines: int = TAIL_LINES) -> Outcome:
    """Play one seed to its end, or until an invariant breaks."""
    run = Run(seed, transcript_lines=tail_lines)
    try:
        run.play()
    except BrokenInvariantError as broken:
        invariant, detail = broken.invariant, broken.detail
    except Exception:  # every bug is an outcome: its seed replays it
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
