"""Simulated time."""

from coordinator.simulation.world import START_MS, World


def test_events_happen_in_order_of_time_then_of_asking() -> None:
    """Nothing else decides: not the hash of a name, not the real clock."""
    world, told = World(1), list[str]()
    world.after(20, told.append, "later")
    world.after(10, told.append, "first")
    world.after(10, told.append, "second")
    world.run_until(START_MS + 15)
    assert (told, world.now_ms) == (["first", "second"], START_MS + 15)
    world.run_until(START_MS + 20)
    assert told == ["first", "second", "later"]


def test_the_seed_is_all_the_chance_there_is() -> None:
    """Equal seeds roll alike; both ends of a range come up."""
    rolls = [[World(seed).between(1, 6) for _ in range(3)] for seed in (1, 1)]
    assert rolls[0] == rolls[1]
    world = World(7)
    assert {world.between(1, 3) for _ in range(60)} == {1, 2, 3}
