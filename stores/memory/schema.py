"""Tables of the memory index, in one place; another version is moved aside and rebuilt, never patched.

``chunks`` holds text and lines, ``segment`` the folded postings (one row a term), ``delta`` postings since the last
fold, ``vectors`` the embeddings of one model. A chunk id is never used twice, so a deleted chunk only has to leave
``chunks``: postings that still name it are dropped when they are read, and for good at the next fold. The chunks of a
search are fetched by the key and lie uncompressed: DuckDB would scan all ids and unpack thousands of texts otherwise
(24 of 123,000 chunks: 2 ms; without the key 8, compressed 32).
Source: spec/stack.md 2 and 3.
"""

from __future__ import annotations

import json

SCHEMA_VERSION = 2
# Part of the lexical identity: raise it when the tokenizer or the chunker gives other rows for the same text.
TEXT_VERSION = 2

TABLES = (
    "CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)",
    """CREATE TABLE files (
        file_id INTEGER NOT NULL, source VARCHAR NOT NULL, path VARCHAR NOT NULL, scope VARCHAR NOT NULL,
        session_kind VARCHAR NOT NULL, hash VARCHAR NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL,
        read_ns BIGINT NOT NULL, chunks INTEGER NOT NULL)""",
    """CREATE TABLE chunks (
        chunk_id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
        length INTEGER NOT NULL, hash VARCHAR NOT NULL USING COMPRESSION uncompressed, origin VARCHAR NOT NULL,
        observed_ms BIGINT, text VARCHAR NOT NULL USING COMPRESSION uncompressed)""",
    "CREATE TABLE segment (term VARCHAR PRIMARY KEY, ids INTEGER[] NOT NULL, frequencies SMALLINT[] NOT NULL)",
    "CREATE TABLE delta (term VARCHAR NOT NULL, chunk_id INTEGER NOT NULL, frequency SMALLINT NOT NULL)",
)


def text_identity(tokens: int, overlap: int) -> str:
    """Return what decides the rows of a text: a change means that the keyword index is rebuilt."""
    return json.dumps({"schema": SCHEMA_VERSION, "text": TEXT_VERSION, "tokens": tokens, "overlap": overlap})


def quoted(text: str) -> str:
    """Return a text as an SQL literal: a parameter costs DuckDB a vain look for pandas, more than a short statement."""
    return "'" + text.replace("'", "''") + "'"
