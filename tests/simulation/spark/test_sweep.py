"""The sweep over seeds on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests
from gateway.pipeline import PipelineError, installed
from tests.simulation.__main__ import SEED_MAX, main
from tests.simulation.run import Outcome, replay_command
from tests.simulation.spark.sweep import SeedRow, pieces, row_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_rows_equal_those_of_a_local_run(spark: SparkSession, tmp_path: Path) -> None:
    """The executor and the order do not matter."""
    from gateway.pipeline.spark.session import send_own_code
    from tests.simulation.spark.sweep import report, write_rows

    output = str(tmp_path / "rows")
    send_own_code(spark.sparkContext, tests)
    write_rows(spark, 7, 9, output)
    rows = spark.read.parquet(output)
    distributed = [SeedRow(**row.asDict()) for row in rows.orderBy("seed").collect()]
    assert distributed == [row_of(seed) for seed in range(7, 16)]
    is_fine, text = report(rows, 7, 9)
    assert is_fine
    assert text.startswith("Nothing broke in 9 seeds, 7 to 15.\n")
    assert f"{sum(row.moves for row in distributed):,} moves" in text


def test_failing_seeds_are_printed_and_the_others_played(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first ones are printed with their replay commands. An exception is a failure."""
    from gateway.pipeline.spark.session import send_own_code
    from tests.simulation.spark.sweep import FAILURES_TOLD_MAX, report, write_rows

    def play(seed: int) -> Outcome:
        if seed % 3 == 0:
            raise ZeroDivisionError
        invariant = "1: nothing" if seed % 3 == 1 else None
        return Outcome(seed=seed, invariant=invariant, counts={"events": 2})

    output = str(tmp_path / "rows")
    send_own_code(spark.sparkContext, tests)
    write_rows(spark, 0, 60, output, play)
    rows = spark.read.parquet(output)
    assert rows.count() == 60
    is_fine, text = report(rows, 0, 60)
    lines = text.splitlines()
    assert not is_fine
    assert lines[0] == "Broken in 40 of 60 seeds, 0 to 59:"
    assert lines[1] == "Seed 0 breaks invariant engine: no internal error occurs"
    assert lines[3:5] == [
        "Seed 1 breaks invariant 1: nothing",
        f"  To replay it: {replay_command(1)}",
    ]
    assert lines[1 + 2 * FAILURES_TOLD_MAX] == "and 20 more, where violations is 1"
    assert lines[-1] == "80 events, 0 rebalances, 0 moves, 40 violations"


def test_a_killed_sweep_continues(spark: SparkSession, tmp_path: Path) -> None:
    """What tasks had written is not played again. The folder of a sweep that has ended is refused,
    and so is any other."""
    from gateway.pipeline.spark.session import send_own_code
    from tests.simulation.spark.sweep import write_rows

    def play(seed: int) -> Outcome:
        return Outcome(seed=seed, counts={"events": 1})

    def play_again(seed: int) -> Outcome:
        return Outcome(seed=seed, counts={"events": 2})

    output = tmp_path / "rows"
    send_own_code(spark.sparkContext, tests)
    assert write_rows(spark, 0, 40, str(output), play) == 0
    with pytest.raises(PipelineError, match="no sweep to continue"):
        write_rows(spark, 0, 40, str(output), play)
    (output / "_SUCCESS").unlink()
    first, *_others = sorted(output.glob("part-*"))
    first.unlink()
    (output / "_temporary").mkdir()
    assert write_rows(spark, 0, 42, str(output), play_again) == 35
    rows = spark.read.parquet(str(output)).orderBy("seed").collect()
    assert [row["seed"] for row in rows] == list(range(42))
    assert {row["seed"] for row in rows if row["events"] == 2} == {*range(5), 40, 41}
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(PipelineError, match="no sweep to continue"):
        write_rows(spark, 0, 40, str(tmp_path), play)


def test_seeds_are_split_into_pieces_that_were_not_played() -> None:
    """Other sweeps in the folder count only with the columns that both have."""
    assert pieces(range(3, 10), [], 2) == [range(3, 7), range(7, 10)]
    played = [range(20, 30), range(5, 7), range(4), range(9, 12)]
    assert pieces(range(3, 10), played, 3) == [range(4, 5), range(7, 9)]
    assert pieces(range(3, 10), [range(3, 10)], 3) == []


def test_a_million_seeds_are_split_into_small_tasks(spark: SparkSession) -> None:
    """Neither memory nor the loss of an executor grows with them."""
    from tests.simulation.spark.sweep import SEEDS_PER_TASK_MAX, tasks

    context = spark.sparkContext
    assert tasks(context, 1) == 1
    assert tasks(context, 1_000_000) == 1_000_000 // SEEDS_PER_TASK_MAX


@pytest.mark.parametrize(
    "arguments",
    [["--conf", "spark.ui.enabled"], ["--seeds", "0"], ["--first-seed=-1"], ["--master"]],
)
def test_an_invalid_setting_is_a_usage_error(arguments: list[str]) -> None:
    """An invalid setting is found before a JVM starts."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2


def test_a_seed_beyond_the_last_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Such a seed would not fit into its column, locally or on Spark."""
    with pytest.raises(SystemExit):
        main(["--seeds", "2", "--first-seed", str(SEED_MAX)])
    assert "--first-seed" in capsys.readouterr().err


@pytest.mark.parametrize("asks", [["--output", "rows"], ["--master", "local[2]"]])
def test_without_spark_the_command_names_the_install_command(
    asks: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is one line, with exit status 1."""
    monkeypatch.setattr(installed, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "tests.simulation.spark.sweep", None)
    with pytest.raises(SystemExit) as end:
        main(asks)
    assert end.value.code == 1
    assert capsys.readouterr().err == (
        "poe simulate: this needs pyspark, pyarrow, htpy, from the extra pipeline: in a checkout,"
        " pip install -c constraints.txt '.[pipeline]'\n"
    )
