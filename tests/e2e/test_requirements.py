"""What a test may lack, and where it may not."""

import pytest

from tests.support.requirements import missing


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_what_is_missing_skips_a_test_here_and_fails_it_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason in either case."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="needs npm"):
        missing("needs npm")
