"""Settings: every key with its default and range, read from the home's file, the environment and flags.

Source: spec/settings.md.
"""

from turngraph.config.keys import known_keys, knows_key
from turngraph.config.live import LiveSettings
from turngraph.config.load import load_settings
from turngraph.config.settings import AgentRoot, AgentSettings, Settings, default_settings
from turngraph.config.units import parse_byte_size, parse_duration_ms

__all__ = [
    "AgentRoot",
    "AgentSettings",
    "LiveSettings",
    "Settings",
    "default_settings",
    "known_keys",
    "knows_key",
    "load_settings",
    "parse_byte_size",
    "parse_duration_ms",
]
