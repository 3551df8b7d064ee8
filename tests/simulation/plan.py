"""Draws the plan of a run from its seed: settings, kinds of clients, kinds of faults.

Each run has only some of the faults, because a run without late requests, for example, explores the
others further. Timeouts are short, so that much happens in little simulated time.
"""

import random
from dataclasses import dataclass, replace

from coordinator.interface.config import (
    INT32_MAX,
    GroupConfig,
    MigrationPolicy,
    StaticTakeover,
)
from coordinator.interface.roll_policy import RollPolicy
from gateway.hosting.states import Adoption
from kafka_codecs.api_keys import ApiKey
from tests.simulation.broker_profiles import KAFKA_4_3, PROFILES, BrokerProfile
from tests.simulation.client import Spec
from tests.simulation.cluster import RACKS
from tests.simulation.computing import VERSIONS
from tests.simulation.computing import assignors as client_assignors
from tests.simulation.leader import STICKY
from tests.simulation.world import START_MS, World

CHAOS_MS = 80_000
FIRST_OF_SIXTEEN_WITH_MOVES = 12
"""The last four of sixteen seeds have moves, if the cluster holds anchors."""
TURNS_RATE = 0.15
CLIENTS_MAX = 6
REPLACEMENT_GRACES_MS = [0, 500, 3_000]
TEMPORARY_MS = 6_000
ROLL_PAUSE_MS = 20_000
SLOW_COMMIT_MS = 1_000
REST_MS_MAX = 6_000
SHORTEST_PAUSE_MS = 800
TOPIC_NAMES = ("foo", "bar", "baz")
REGEXES = ("ba.", "foo|bar", "no.*")
EAGER_LISTS = (("range",), ("roundrobin", "range"), ("range", "roundrobin"))

PLUG_IN = "plug-in"
"""A server-side assignor of an installed package."""
PLUG_IN_FAILURE_RATE = 0.3
POLICIES = (*[MigrationPolicy.BIDIRECTIONAL] * 5, *MigrationPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a run. `pause_ms_max` is the longest pause between two random actions.

    `classic_style` says whether classic clients are eager, cooperative, or both. In the last case
    they migrate from one to the other, and all offer the cooperative assignor.
    """

    config: GroupConfig
    pause_ms_max: int
    classic_style: str
    native_share: float
    static_share: float
    regex_share: float
    loss_rate: float
    late_rate: float
    slow_rate: float
    cluster_failure_rate: float
    """The share of the gateway's own requests to the cluster that get no answer."""
    lost_answer_rate: float
    commit_ms_max: int
    log_failure_rate: float
    slow_log_rate: float
    anchor_linger_ms: int
    has_crashes: bool
    has_freezes: bool
    has_misbehaviour: bool
    has_topic_changes: bool
    has_policy_changes: bool
    """Whether operators restart the gateway with another policy, and hold, pause and allow the
    group. It then also rests after conversions to and fro."""
    error_rate: float
    log_doubt_rate: float
    has_takeovers: bool
    """Whether consumers enter the group in the cluster, and admins remove the anchor."""
    has_pauses: bool
    has_two_gateways: bool
    has_clock_jumps: bool
    has_racks: bool
    profile: BrokerProfile = KAFKA_4_3
    """The brokers of the cluster."""
    has_moves: bool = False
    """Whether operators adopt and release the group. Nobody breaks the protocol then."""
    hosts_all: bool = True
    """Whether a setting has the group hosted from its first join on (groups_host)."""
    adopts: Adoption = "manual"
    """The setting groups_adopt."""
    has_outsiders: bool = False
    """Whether consumers join in the cluster itself."""
    has_turns: bool = False
    """Whether native clients turn to other brokers and back, and keep their connections."""

    @property
    def holds_anchors(self) -> bool:
        """Whether the cluster holds anchors. Otherwise time ends the commits without an answer."""
        return self.config.lost_commit_hold_ms is None

    @property
    def has_plug_in(self) -> bool:
        return PLUG_IN in self.config.consumer_assignors

    @property
    def has_resets(self) -> bool:
        """Whether admins reset offsets. Commits are slow then, so members may join before a reset
        is stored."""
        return self.commit_ms_max == SLOW_COMMIT_MS


def draw_plan(world: World) -> Plan:
    """Draw the settings and faults of a run."""
    dice = world.dice
    config = GroupConfig(
        classic_min_session_timeout_ms=1_000,
        classic_initial_rebalance_delay_ms=dice.choice([0, 500, 1_500]),
        classic_max_size=dice.choice([100, 100, 100, 3]),
        consumer_session_timeout_ms=dice.choice([5_000, 8_000]),
        consumer_min_session_timeout_ms=4_000,
        consumer_max_session_timeout_ms=10_000,
        consumer_heartbeat_interval_ms=1_500,
        consumer_min_heartbeat_interval_ms=1_000,
        consumer_max_heartbeat_interval_ms=1_500,
        consumer_max_size=dice.choice([100, 100, 100, 3]),
        consumer_assignors=dice.choice([("uniform", "range"), ("range", "uniform")]),
        consumer_migration_policy=dice.choice(POLICIES),
        consumer_assignment_interval_ms=dice.choice([0, 1_000]),
        classic_new_member_join_timeout_ms=20_000,
        replacement_grace_ms=dice.choice(REPLACEMENT_GRACES_MS),
        rack_aware=True,  # where the cluster has racks
        static_takeover=dice.choice([*StaticTakeover]),
        unsettled_heartbeat_interval_ms=dice.choice([INT32_MAX, 1_000]),
        reconnect_timeout_ms=0,
        consumer_regex_refresh_interval_ms=dice.choice([15_000, 600_000]),
        lost_commit_hold_ms=dice.choice([2_000, None, None, None]),
    )
    # Members are spared where they hurry: a draw of its own would change the runs without both.
    config = replace(
        config,
        unaffected_members_rejoin=config.unsettled_heartbeat_interval_ms == INT32_MAX,
        second_target_waits=config.unsettled_heartbeat_interval_ms == INT32_MAX
        or config.replacement_grace_ms == REPLACEMENT_GRACES_MS[-1],
        eager_imbalance_percent=50 if config.replacement_grace_ms else 0,
        temporary_assignment_ms=TEMPORARY_MS if config.replacement_grace_ms else 0,
        roll_pause_ms=ROLL_PAUSE_MS,
        # Places are kept in rolls only: most groups are announced to be rolled.
        rolled_since_ms=None if config.consumer_max_size == 3 else START_MS,
    )
    plan = Plan(
        config=config,
        classic_style=dice.choice(["eager", "cooperative", "both"]),
        pause_ms_max=dice.choice([SHORTEST_PAUSE_MS, 2_000, 4_000]),
        native_share=dice.choice([0.0, 0.5, 1.0]),
        static_share=dice.choice([0.0, 0.4, 0.4, 1.0]),
        regex_share=dice.choice([0.0, 0.0, 0.4]),
        loss_rate=dice.choice([0.0, 0.03, 0.1]),
        late_rate=dice.choice([0.0, 0.05]),
        slow_rate=dice.choice([0.0, 0.0, 0.1]),
        cluster_failure_rate=dice.choice([0.0, 0.0, 0.03, 0.1]),
        lost_answer_rate=dice.choice([0.0, 0.1]),
        commit_ms_max=dice.choice([60, 60, SLOW_COMMIT_MS]),
        log_failure_rate=dice.choice([0.0, 0.0, 0.05]),
        slow_log_rate=dice.choice([0.0, 0.0, 0.1]),
        anchor_linger_ms=dice.choice([500, 5_000, 60_000]),
        has_crashes=world.chance(0.6),
        has_freezes=world.chance(0.6),
        has_misbehaviour=world.chance(0.5),
        has_topic_changes=world.chance(0.6),
        has_policy_changes=world.chance(0.3),
        error_rate=dice.choice([0.0, 0.0, 0.03]),
        log_doubt_rate=dice.choice([0.0, 0.0, 0.05]),
        has_takeovers=world.chance(0.4),
        has_pauses=world.chance(0.3),
        has_two_gateways=world.chance(0.3),
        has_clock_jumps=world.chance(0.5),
        has_racks=world.chance(0.3),
    )
    rest_max_ms = REST_MS_MAX if plan.has_policy_changes else 0
    assignors = config.consumer_assignors
    if plan.lost_answer_rate and plan.pause_ms_max == SHORTEST_PAUSE_MS:  # no draw of its own
        assignors = (PLUG_IN, *assignors)
    config = replace(
        config,
        roll_policy=RollPolicy(rest_max_ms=rest_max_ms),
        consumer_assignors=assignors,
        client_side_assignors=plan.lost_answer_rate == 0.0
        and plan.pause_ms_max == SHORTEST_PAUSE_MS,
    )
    # As above: no draw changes the other runs.
    has_turns = random.Random(f"turns {world.seed}").random() < TURNS_RATE
    return _with_moves(replace(plan, config=config, has_turns=has_turns), world.seed)


def _with_moves(plan: Plan, seed: int) -> Plan:
    """Draw the brokers, and in some runs moves. These draws change nothing of other runs."""
    dice = random.Random(f"moves {seed}")
    delay_ms = dice.choice([0, 1_000, 3_000])
    profile = dice.choice(PROFILES)
    if not (plan.holds_anchors and seed % 16 >= FIRST_OF_SIXTEEN_WITH_MOVES):
        return replace(plan, profile=replace(profile, initial_rebalance_delay_ms=0))
    plan = replace(plan, profile=replace(profile, initial_rebalance_delay_ms=delay_ms))
    has_outsiders = not plan.has_takeovers and dice.random() < 0.4
    config = replace(
        plan.config,
        classic_max_size=100,
        consumer_max_size=100,
        consumer_assignors=("uniform", "range"),
        client_side_assignors=False,
    )
    static_share = dice.choice([0.0, 0.0, 0.3])
    return replace(
        plan,
        config=config,
        has_moves=True,
        hosts_all=dice.random() < 0.4,
        adopts="auto" if dice.random() < 0.2 else "manual",
        has_outsiders=has_outsiders,
        has_misbehaviour=False,
        has_turns=False,
        has_racks=False,
        regex_share=0.0,
        pause_ms_max=dice.choice([2_000, 4_000, 8_000]),
        static_share=static_share,
        # Where the cluster serves the group, a static leader need not know that it leads (KIP-814).
        has_topic_changes=plan.has_topic_changes and not static_share,
        native_share=dice.choice([0.0, 0.0, 0.0, 0.3, 0.6]),
        has_policy_changes=False,
    )


def draw_spec(world: World, plan: Plan, instance_id: str | None) -> Spec:
    """Draw the configuration of one client, for either protocol."""
    dice = world.dice
    is_cooperative = plan.classic_style == "cooperative" or (
        plan.classic_style == "both" and world.chance(0.5)
    )
    if plan.classic_style == "eager":
        protocols = dice.choice(EAGER_LISTS)
    elif is_cooperative:
        protocols = (STICKY,)
    else:
        protocols = (STICKY, "range")
    has_own_assignor = plan.config.client_side_assignors
    return Spec(
        client_assignors=client_assignors(dice.choice(VERSIONS)) if has_own_assignor else (),
        topics=draw_topics(world),
        topic_regex=dice.choice(REGEXES) if world.chance(plan.regex_share) else None,
        instance_id=instance_id,
        rack_id=dice.choice(RACKS) if plan.has_racks else None,
        rebalance_timeout_ms=dice.choice([3_000, 6_000]),
        callback_ms=dice.choice([0, 100, 800, 2_500]),
        version=dice.choice([0, 1, 1]),
        assignor=None
        if has_own_assignor
        else dice.choice([None, "uniform", PLUG_IN if plan.has_plug_in else "range"]),
        session_timeout_ms=dice.choice([4_000, 8_000, 15_000]),
        heartbeat_interval_ms=dice.choice([1_000, 1_500]),
        protocols=protocols,
        is_cooperative=is_cooperative,
        join_version=min(
            dice.choice([3, 4, 5, 9]) if instance_id is None else dice.choice([5, 9]),
            plan.profile.versions[ApiKey.JOIN_GROUP],
        ),
        embedded_version=dice.choice([1, 2, 3] if is_cooperative else [0, 1, 2, 3]),
    )


def draw_topics(world: World) -> tuple[str, ...]:
    """Draw a subscription. One of its topics may not exist."""
    return world.dice.choice([("foo",), ("bar", "foo"), ("bar", "foo"), ("bar", "baz", "foo")])
