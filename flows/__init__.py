"""Prefect flows: thin wrappers around plain functions."""
