"""Requirements of tests may be missing, but not in CI."""

import pytest

from tests.support.requirements import missing


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_missing_requirement_skips_a_test_and_fails_it_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is given in either case."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="needs npm"):
        missing("needs npm")
