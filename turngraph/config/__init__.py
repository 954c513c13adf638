"""Settings: every key with its default and range, read from the home's file, the environment and flags.

Source: spec/settings.md.
"""

from turngraph.config.settings import AgentRoot, AgentSettings, Settings, default_settings
from turngraph.config.units import parse_byte_size, parse_duration_ms

__all__ = [
    "AgentRoot",
    "AgentSettings",
    "Settings",
    "default_settings",
    "parse_byte_size",
    "parse_duration_ms",
]
