"""Wiring of the turn graph, nothing else."""
