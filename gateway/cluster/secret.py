"""A secret that is kept out of every representation."""

from dataclasses import dataclass, field
from pathlib import Path

from gateway.cluster.errors import UpstreamRefused


@dataclass(slots=True)
class Secret:
    """A secret, or the file that has it. It appears in no representation, and may change."""

    value: str | None = field(default=None, repr=False)
    path: Path | None = None

    def read(self) -> str:
        """The secret; from a file, what is there now. Raises UpstreamRefused."""
        if self.path is None:
            assert self.value is not None
            return self.value
        try:
            read = self.path.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise UpstreamRefused(f"cannot read {self.path}: {error.strerror}") from None
        except UnicodeError:
            raise UpstreamRefused(f"{self.path} is not UTF-8") from None
        if not read:
            raise UpstreamRefused(f"{self.path} is empty")
        return read
