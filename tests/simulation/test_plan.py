"""The plans that seeds draw."""

from tests.simulation.plan import draw_plan, draw_spec
from tests.simulation.world import World


def test_plans_differ_and_repeat() -> None:
    """Each kind of fault occurs in some runs and not in others."""
    plans = [draw_plan(World(seed)) for seed in range(40)]
    assert plans[3] == draw_plan(World(3))
    for name in ("has_crashes", "has_freezes", "has_topic_changes", "slow_log_rate", "late_rate"):
        assert len({bool(getattr(plan, name)) for plan in plans}) == 2, name


def test_classic_clients_of_a_run_can_be_in_one_group() -> None:
    """The clients share an assignor, and cooperative ones can state owned partitions."""
    for seed in range(60):
        world = World(seed)
        plan = draw_plan(world)
        specs = [draw_spec(world, plan, None) for _ in range(10)]
        assert frozenset.intersection(*(frozenset(spec.protocols) for spec in specs))
        assert all(spec.embedded_version > 0 for spec in specs if spec.is_cooperative)
        assert all(spec.join_version >= 5 for spec in [draw_spec(world, plan, "i1")])
