"""A worked plugin: rules of the house for an agent.

It refuses commands that the settings forbid, masks credentials before a tool result is stored, adds a line to the
system prompt, and counts turns. Settings:

    plugins: {
      load: { paths: ["plugins/house_rules.py"] },
      entries: { house_rules: { config: { forbidden: ["rm -rf", "git push --force"], rule: "Speak plainly." } } },
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngraph.credentials import mask_credentials
from turngraph.hook_results import PromptAdditions, ToolVerdict
from turngraph.hook_specs import hookimpl, priority
from turngraph.messages import Message


class HouseRules:
    """One object that holds what the hooks share; it is made once for a home."""

    def __init__(self) -> None:
        self.forbidden: tuple[str, ...] = ()
        self.rule = ""
        self.turns = 0

    @hookimpl
    def configure(self, config: Mapping[str, Any]) -> None:
        """Check the settings once; raising here keeps the home from running without its guard."""
        unknown = set(config) - {"forbidden", "rule"}
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}; known: forbidden, rule")
        self.forbidden = tuple(config.get("forbidden", ()))
        self.rule = str(config.get("rule", ""))

    @hookimpl
    @priority(-100)  # a guard runs last, so that it sees the parameters as they will run
    async def before_tool_call(self, name: str, params: Mapping[str, Any]) -> ToolVerdict | None:
        """Block a command that holds a forbidden phrase; ``None`` lets the call go on."""
        if name != "exec":
            return None
        command = " ".join(str(params.get("command", "")).split())
        found = next((phrase for phrase in self.forbidden if phrase in command), None)
        return ToolVerdict(block=True, reason=f"The rules of this house forbid `{found}`.") if found else None

    @hookimpl
    def tool_result_persist(self, message: Message) -> Message | None:
        """Mask credentials before a result reaches the disk; ``None`` when there are none."""
        blocks = [
            {**block, "text": mask_credentials(block["text"])} if block.get("type") == "text" else block
            for block in message.blocks
        ]
        return message.evolve(content=blocks) if blocks != list(message.blocks) else None

    @hookimpl
    def before_prompt_build(self) -> PromptAdditions | None:
        """Add the rule behind the system prompt: the same text each turn, so the provider's cache holds."""
        return PromptAdditions(append_system_context=self.rule) if self.rule else None

    @hookimpl
    def agent_end(self, success: bool) -> None:
        """Count finished turns; an observer's answer is ignored."""
        self.turns += success


plugin = HouseRules  # without this name the functions of the module itself are the plugin
