"""identifiers: find what must be kept letter by letter: ids, hashes, URLs, paths, hosts and long numbers.

Credentials are never among them. Source: spec/compaction.md 4.7, known-faults 5.4.
"""

from __future__ import annotations

import re

from turngraph.credentials import mask_credentials

MAX_IDENTIFIERS = 12
MIN_CHARS = 4

_EDGE = r"(?<![A-Za-z0-9_])"
_IDENTIFIER = re.compile(
    "|".join(
        (
            r"(?P<url>https?://[!-~]+)",  # ASCII only: a Chinese sentence may go on right behind it
            rf"(?P<uuid>{_EDGE}[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}(?![A-Za-z0-9_]))",
            r"(?P<windows>[A-Za-z]:\\[\w\\.\-]+)",
            r"(?P<unix>(?<![\w.:/~])~?/[\w.\-]+(?:/[\w.\-]+)+)",
            r"(?P<relative>(?<![\w./])(?:[A-Za-z0-9_.\-]+/)+[A-Za-z0-9_\-]+\.[A-Za-z0-9]{1,8}(?![\w/]))",
            r"(?P<host>(?<![\w.])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+:\d{2,5})",
            r"(?P<decimal>(?<![\w.])\d+\.\d+(?![\w]))",
            rf"(?P<hex>{_EDGE}[0-9a-fA-F]{{8,}}(?![A-Za-z0-9_]))",
            rf"(?P<token>{_EDGE}(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{{16,}}(?![A-Za-z0-9_]))",
            rf"(?P<number>{_EDGE}\d{{6,}}(?![A-Za-z0-9_]))",
        )
    )
)
# A patch names each file with a side in front; the path is what stands behind it.
_PATCH_SIDES = re.compile(r"^diff --git .*$|(?<=^--- )a/|(?<=^\+\+\+ )b/", re.MULTILINE)
_EDGE_PUNCTUATION = "()[]{}<>\"'`,.;:!?"
_HEX = re.compile(r"[0-9A-Fa-f]{8,}")


def is_hex_identifier(identifier: str) -> bool:
    """Whether ``identifier`` is a plain hexadecimal string, which means the same in either case."""
    return _HEX.fullmatch(identifier) is not None


def find_identifiers(text: str, limit: int = MAX_IDENTIFIERS) -> list[str]:
    """Return up to ``limit`` different identifiers of ``text`` in the order in which they stand there.

    Each is given as written; a hexadecimal string that comes again in another case is the same one. Decimal numbers
    and everything that is part of a credential are left out.
    """
    found: dict[str, str] = {}
    for match in _IDENTIFIER.finditer(_PATCH_SIDES.sub("", mask_credentials(text))):
        if match.lastgroup == "decimal":
            continue
        identifier = match.group(0).strip(_EDGE_PUNCTUATION)
        if len(identifier) >= MIN_CHARS and "…" not in identifier:
            found.setdefault(identifier.upper() if match.lastgroup == "hex" else identifier, identifier)
        if len(found) >= limit:
            break
    return list(found.values())
