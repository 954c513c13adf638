"""Compaction: what is folded into a summary, how the summary is made and checked, and what stays in sight."""
