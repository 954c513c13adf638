"""Scheduled work as plain functions: a job's run, a heartbeat, re-indexing, maintenance. No scheduler is needed."""
