"""Which assignors the installed packages offer."""

from pathlib import Path

import pytest

from gateway.plug_ins.installed import check_assignor, load
from tests.support.plug_ins import install

ASSIGN = "def assign(spec):\n    return {}\n"


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_our_own_need_no_package(name: str) -> None:
    """No package can replace them either."""
    assert check_assignor(name) == name


def test_an_installed_one_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check imports nothing: its module may take long, or fail."""
    install(tmp_path, {"mine": ASSIGN, "broken": "raise RuntimeError('no')"}, monkeypatch)
    assert check_assignor("mine") == "mine"
    assert check_assignor("broken") == "broken"
    assert load("mine")(None) == {}  # type: ignore[arg-type]


def test_an_unknown_one_is_named() -> None:
    """The error lists the valid names."""
    with pytest.raises(ValueError, match="'sticky' is neither one of uniform, range, nor an entry"):
        check_assignor("sticky")


def test_two_packages_with_the_same_name_are_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them would count depends on the order of installation."""
    for folder, module in (("one", "first"), ("two", "second")):
        (tmp_path / folder).mkdir()
        install(tmp_path / folder, {module: ASSIGN}, monkeypatch)
        entries = tmp_path / folder / f"{module}-1.0.dist-info" / "entry_points.txt"
        entries.write_text(f"[groupferry.assignors]\nmine = {module}:assign\n")
    with pytest.raises(ValueError, match="'mine': first:assign and second:assign"):
        check_assignor("mine")
