"""The ratios of a benchmark."""

from tests.bench.comparison import Results, print_ratios

ROW = "Heartbeat, 1 connection"


def ratio_of(ours: list[float], theirs: list[float], figure: str = "cpu_us") -> float:
    """The ratio of a figure in these rounds."""
    results = Results()
    samples = {
        "echo": [{figure: value} for value in theirs],
        "groupferry": [{figure: value} for value in ours],
    }
    results.record(ROW, samples)
    (ratio,) = results.ratios.values()
    return ratio


def test_a_ratio_compares_rounds_that_ran_one_after_the_other() -> None:
    """Other load that slows one round down slows both servers down."""
    assert ratio_of([20, 80, 22], [10, 40, 10]) == 2


def test_wall_time_is_that_of_the_best_rounds() -> None:
    """Other load may slow down any of them."""
    assert ratio_of([60, 20, 90], [10, 40, 30], "wall_us") == 2


def test_a_ratio_twice_the_committed_one_is_a_regression() -> None:
    assert print_ratios({"a": 4.0, "b": 3.9}, {"a": 2.0, "b": 2.0}) == ["a"]


def test_a_new_ratio_is_no_regression() -> None:
    assert print_ratios({"a": 4.0}, {}) == []


def test_a_peer_that_compiles_shows_no_regression() -> None:
    key = "Heartbeat: CPU, groupferry / Kafka"
    assert print_ratios({key: 4.0}, {key: 2.0}) == []


def test_a_run_may_be_limited_to_some_rows() -> None:
    """One row takes seconds, all rows take minutes."""
    results = Results(only=["Heartbeat", "join"])
    assert results.wants(ROW)
    assert results.wants("10 classic members join at once")
    assert not results.wants("OffsetCommit, 1 connection")
    assert Results().wants(ROW)
