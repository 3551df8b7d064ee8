"""Mutants that no test can notice, because they change nothing that any code relies on.

`harmless.toml` lists them with the reason. The run skips them.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.mutation.mutants import Mutant

Key = tuple[str, str, str, str]
"""File, function, and what the mutant changes. Lines would move with every edit above them."""

_FIELDS = ("file", "in", "was", "becomes")
LIST = Path(__file__).parent / "harmless.toml"


def key_of(mutant: Mutant) -> Key:
    """What the list names a mutant by."""
    return mutant.file, mutant.name, mutant.was, mutant.becomes


def harmless(path: Path = LIST) -> Mapping[Key, str]:
    """The reason for each of them."""
    listed = tomllib.loads(path.read_text())["mutant"]
    return {
        (mutant["file"], mutant["in"], mutant["was"], mutant["becomes"]): mutant["why"]
        for mutant in listed
    }
