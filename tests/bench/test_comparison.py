"""The ratios of a benchmark, and the guard against regressions."""

from tests.bench.comparison import Results, confirmed, print_ratios, typical

ROW = "Heartbeat, 1 connection"


def ratio_of(ours: list[float], theirs: list[float], figure: str = "cpu_us") -> float:
    """The ratio of a figure in these rounds."""
    results = Results()
    samples = {
        "echo": [{figure: each} for each in theirs],
        "groupferry": [{figure: each} for each in ours],
    }
    results.note(ROW, samples)
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


def test_a_guard_commits_the_median_of_its_runs() -> None:
    """A low one by chance would make a regression of each later run."""
    assert typical([{"a": 1.0}, {"a": 3.0}, {"a": 2.5}]) == {"a": 2.5}


def test_a_new_ratio_is_no_regression() -> None:
    assert print_ratios({"a": 4.0}, {}) == []


def test_a_peer_that_compiles_shows_no_regression() -> None:
    key = "Heartbeat: CPU, groupferry / Kafka"
    assert print_ratios({key: 4.0}, {key: 2.0}) == []


def test_a_run_may_be_limited_to_some_rows() -> None:
    """One row takes seconds, all rows take minutes."""
    some = Results(only=["Heartbeat", "join"])
    assert some.wants(ROW)
    assert some.wants("10 classic members join at once")
    assert not some.wants("OffsetCommit, 1 connection")
    assert Results().wants(ROW)


def test_a_second_run_has_to_confirm_a_regression() -> None:
    """Another process may have had the machine during the first."""
    runs = iter([{"a": 4.0, "b": 9.0}, {"a": 1.0, "b": 8.0}])
    assert confirmed(lambda: next(runs), {"a": 1.0, "b": 4.0}) == ["b"]


def test_a_run_without_a_regression_is_not_repeated() -> None:
    runs = iter([{"a": 1.9}])
    assert confirmed(lambda: next(runs), {"a": 1.0}) == []
