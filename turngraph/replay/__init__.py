"""Replaying transcripts through the turn graph."""
