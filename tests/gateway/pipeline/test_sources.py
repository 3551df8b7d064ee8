"""A report is not written to where it would be read as events the next time."""

import os
from pathlib import Path

import pytest

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.sources import Sources


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("events", "events"),
        ("events", "events/out"),
        ("events/", "events/../events/not/yet"),
        ("backup/*/events", "backup/a/events/out"),
        ("backup/*/events", "backup/later/events/out"),
        ("backup/*", "backup/out"),
        ("backup/{a,c{d,e}}/events", "backup/ce/events/out"),
        ("backup/[ab]/e?ents", "backup/b/events"),
        ("file:{}/backup/*/events", "backup/a/events/out"),
        ("events", "file:{}/events/out"),
        ("linked/*", "backup/a/out"),
        ("backup/*", "linked/a/out"),
    ],
)
def test_the_output_is_in_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, output: str
) -> None:
    """Whatever a pattern means now or later, and whatever way leads there."""
    (tmp_path / "backup/a/events").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("backup")
    monkeypatch.chdir(tmp_path)
    given, output = (each.replace("file:{}", f"file://{tmp_path}") for each in (given, output))
    with pytest.raises(PipelineError, match="choose another folder"):
        Sources(inputs=["elsewhere", given]).require_without(output)


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("events", "out"),
        ("events", "events-report"),
        ("backup/*/events", "backup/a/out"),
        ("backup/*.jsonl", "backup/out"),
        ("backup/{a,b}/events", "backup/c/events"),
        ("out/of/here", "out"),
    ],
)
def test_beside_them_it_may_be(given: str, output: str) -> None:
    """Also in the folder that has the inputs."""
    Sources(inputs=[given]).require_without(os.path.abspath(output))  # noqa: PTH100  (no links)
