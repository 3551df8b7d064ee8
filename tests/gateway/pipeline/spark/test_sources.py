"""The output of a report must not be among its inputs."""

import gzip
import os
from pathlib import Path

import pytest

from gateway.pipeline import PipelineError, sources
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
    """This holds for all future matches of a pattern, and for any path to the folder."""
    (tmp_path / "backup/a/events").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("backup")
    monkeypatch.chdir(tmp_path)
    given, output = (path.replace("file:{}", f"file://{tmp_path}") for path in (given, output))
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
def test_the_output_may_be_next_to_the_inputs(given: str, output: str) -> None:
    """The output may even be in the folder that contains them."""
    Sources(inputs=[given]).require_without(os.path.abspath(output))  # noqa: PTH100  (no links)


def test_only_a_few_local_files_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is elsewhere may be large. Packed files count as what they unpack to."""
    monkeypatch.setattr(sources, "HERE_BYTES_MAX", 100)
    for name in ("a", "b"):
        (tmp_path / name).write_text("1" * 30)
    assert Sources(inputs=[f"{tmp_path}"]).fit_here()
    assert not Sources(inputs=[f"{tmp_path}", "s3a://bucket/events"]).fit_here()
    for length, fits in ((40, True), (41, False)):
        (tmp_path / "c.gz").write_bytes(gzip.compress(b"1" * length))
        assert Sources(inputs=[f"{tmp_path}"]).fit_here() == fits
