"""credentials: recognise secrets in text, so that they are masked and never copied into summaries or indexes.

Source: spec/sessions.md section 7.3.
"""

from __future__ import annotations

import re

_TAIL = r"(?![A-Za-z0-9_])"
_EDGE = r"(?<![A-Za-z0-9_])"
_VALUE_PATTERNS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_EDGE}[A-Za-z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD){_TAIL}\s*[=:]\s*(?P<quote>[\"']?)(?P<value>[^\s\"'\\]+)(?P=quote)",
        r'"(?:apiKey|token|secret|password|passwd|accessToken|refreshToken)"\s*:\s*"(?P<value>[^"]+)"',
        r"--(?:api[-_]?key|token|secret|password|passwd)\s+(?P<quote>[\"']?)(?P<value>[^\s\"']+)(?P=quote)",
        r"Authorization\s*[:=]\s*Bearer\s+(?P<value>[A-Za-z0-9._\-+=]+)",
        rf"{_EDGE}Bearer\s+(?P<value>[A-Za-z0-9._\-+=]{{18,}}){_TAIL}",
        r"(?P<value>-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----)",
        rf"{_EDGE}(?P<value>sk-[A-Za-z0-9_-]{{8,}}|ghp_[A-Za-z0-9]{{20,}}|github_pat_[A-Za-z0-9_]{{20,}}"
        rf"|xox[baprs]-[A-Za-z0-9-]{{10,}}|xapp-[A-Za-z0-9-]{{10,}}|gsk_[A-Za-z0-9_-]{{10,}}"
        rf"|AIza[A-Za-z0-9_-]{{20,}}|pplx-[A-Za-z0-9_-]{{10,}}|npm_[A-Za-z0-9]{{10,}}){_TAIL}",
        rf"{_EDGE}(?:bot)?(?P<value>\d{{6,}}:[A-Za-z0-9_-]{{20,}}){_TAIL}",
    )
)
_SHOWN_WHOLE_CHARS = 18  # shorter secrets show nothing of themselves


def mask(value: str) -> str:
    """Return ``value`` so that it can be recognised but not used."""
    if value.startswith("-----BEGIN"):
        lines = value.splitlines()
        return "***" if len(lines) < 2 else "\n".join((lines[0], "…redacted…", lines[-1]))
    return "***" if len(value) < _SHOWN_WHOLE_CHARS else f"{value[:6]}…{value[-4:]}"


def _masked(match: re.Match[str]) -> str:
    value = match.group("value")
    return match.group(0).replace(value, mask(value), 1)


def mask_credentials(text: str) -> str:
    """Return ``text`` with every secret masked; the same object when there is none."""
    for pattern in _VALUE_PATTERNS:
        if pattern.search(text):
            text = pattern.sub(_masked, text)
    return text
