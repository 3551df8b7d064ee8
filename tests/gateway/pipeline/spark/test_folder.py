"""One run at a time uses an output folder, and the folder of `--follow` is not that of a report."""

from pathlib import Path

import pytest

from gateway.pipeline import PipelineError
from gateway.pipeline.folder import DATABASE, Folder, lock, open_folder


def refusal(output: Path, *, follows: bool) -> str:
    with pytest.raises(PipelineError) as refused, lock(Folder(f"{output}"), follows=follows):
        pass
    return str(refused.value)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    with lock(Folder(f"{tmp_path}/out"), follows=True):
        assert "another groupferry report" in refusal(tmp_path / "out", follows=True)
    with lock(Folder(f"{tmp_path}/out"), follows=True):
        pass


def test_a_folder_belongs_to_reports_or_to_follow(tmp_path: Path) -> None:
    """A report would delete what has been read, and `--follow` cannot continue with a report's."""
    with lock(Folder(f"{tmp_path}/follow"), follows=True):
        (tmp_path / "follow" / DATABASE).touch()
    assert "belongs to report --follow" in refusal(tmp_path / "follow", follows=False)
    with lock(Folder(f"{tmp_path}/follow"), follows=True):
        pass
    with lock(Folder(f"{tmp_path}/report"), follows=False):
        (tmp_path / "report" / "tables").mkdir()
    assert "no progress to continue from" in refusal(tmp_path / "report", follows=True)
    with lock(Folder(f"{tmp_path}/report"), follows=False):
        pass


def test_a_folder_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """Other files say there how far it is."""
    for name in ("shelves", "followed.json"):
        (tmp_path / name).mkdir()
    assert "choose another folder, or delete it" in refusal(tmp_path, follows=True)


def test_only_spark_reaches_urls() -> None:
    with pytest.raises(PipelineError, match="only a report on Spark"):
        open_folder("s3a://bucket/out")
    assert Folder("file:///out").path == "/out"
