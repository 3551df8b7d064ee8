"""Installs that all test runs share."""

from pathlib import Path

import pytest

from tests.support.installs import install_once, run


@pytest.fixture(autouse=True)
def _cache_of_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", "")


def test_each_source_is_installed_once() -> None:
    """A changed manifest is installed next to the first one."""
    made: list[Path] = []

    def install(folder: Path) -> None:
        (folder / "thing").write_text("here")
        made.append(folder)

    first, again, other = (install_once("thing", source, install) for source in (b"1", b"1", b"2"))
    assert first == again != other
    assert len(made) == 2
    assert (other / "thing").read_text() == "here"


def test_a_failed_install_is_tried_once_and_leaves_nothing(tmp_path: Path) -> None:
    """The reason has the program's own words, for every test that needs it."""
    tried: list[Path] = []

    def install(folder: Path) -> None:
        tried.append(folder)
        run(["sh", "-c", "echo no such package >&2; exit 3"], cwd=folder)

    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="status 3: no such package"):
            install_once("thing", b"", install)
    assert len(tried) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["groupferry-tests"]
