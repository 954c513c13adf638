"""Settings of a process that keeps running: read again when a file changes.

Source: spec/settings.md section 1, rule 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from turngraph.config.document import find_file
from turngraph.config.load import read_settings
from turngraph.config.settings import Settings
from turngraph.errors import ConfigError


class LiveSettings:
    """The settings of a home and the check whether they changed.

    A turn takes :attr:`current` once and keeps it. A new file with errors leaves the old settings in force:
    :attr:`error` then says what is wrong.

    Raises:
        ConfigError: on creation, when the settings cannot be used at all.
    """

    def __init__(self, home: Path, *, sets: Sequence[str] = (), env: Mapping[str, str]) -> None:
        self._home, self._sets, self._env = home, tuple(sets), dict(env)
        self._files: tuple[Path, ...] = ()
        self._seen = ""
        self.error: ConfigError | None = None
        self.current = self._read()

    def refresh(self) -> bool:
        """Read the files again if their content changed; return whether ``current`` or ``error`` is new."""
        if self._fingerprint() == self._seen:
            return False
        try:
            self.current = self._read()
        except ConfigError as error:
            self.error = error
            self._seen = self._fingerprint()
        return True

    def _read(self) -> Settings:
        settings, self._files = read_settings(self._home, sets=self._sets, env=self._env)
        self.error = None
        self._seen = self._fingerprint()
        return settings

    def _fingerprint(self) -> str:
        first = find_file(self._home)
        digest = sha256()
        for path in dict.fromkeys((*([first] if first else []), *self._files)):
            digest.update(str(path).encode() + b"\0")
            digest.update(path.read_bytes() if path.is_file() else b"")
        return digest.hexdigest()
