"""Vectors of context assembly: bootstrap files, budget, workspace, prompt text and hooks."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodes.bootstrap_budget import DEFAULT_MAX_CHARS, DEFAULT_TOTAL_MAX_CHARS, Budgeted, budget_files, trim_file
from nodes.load_bootstrap import light_files, run_set, select_files
from nodes.state import Section
from nodes.system_prompt import PromptFacts, prompt_mode, prompt_sections, system_text, with_hook_context
from stores.workspace import load_bootstrap_files, load_extra_files
from stores.workspace_setup import STATE_FILE, ensure_workspace, strip_front_matter
from tests.vectors.runner import Case
from turngraph.bootstrap_files import BOOTSTRAP, SEED_FILES, BootstrapFile
from turngraph.config import default_settings
from turngraph.config.checking import repaired
from turngraph.config.fields import ReadAs
from turngraph.config.schema_agent import AgentDefaults
from turngraph.errors import PluginError
from turngraph.hook_calls import Handler
from turngraph.hook_results import (
    AgentStart,
    HookContext,
    ModelOverride,
    PromptAdditions,
    SendingVerdict,
    ToolVerdict,
    WriteVerdict,
)
from turngraph.hooks import Hooks
from turngraph.messages import Message
from turngraph.models.model import ToolSpec
from turngraph.untrusted import prompt_literal, untrusted_block

TOPIC = "context"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_TEXT_FIELDS = {
    "systemPrompt": "system_prompt",
    "prependContext": "prepend_context",
    "prependSystemContext": "prepend_system_context",
    "appendSystemContext": "append_system_context",
}


@contextmanager
def _workspace(layout: list[dict[str, Any]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        outside = Path(folder) / "outside.md"
        outside.write_text("outside", encoding="utf-8")
        for item in layout:
            path = workspace / item["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            if item.get("kind") == "dir":
                path.mkdir()
            elif item.get("kind") == "symlink_outside":
                path.symlink_to(outside)
            elif item.get("kind") == "symlink_inside":
                path.symlink_to(workspace / item["target"])
            elif "size" in item:
                path.write_bytes(b"x" * item["size"])
            else:
                path.write_bytes(item["content"].encode())
        yield workspace


def _files(case: Case) -> list[BootstrapFile]:
    return [
        BootstrapFile(file["name"], file.get("path") or "", None if file.get("missing") else file.get("content", ""))
        for file in case.input["files"]
    ]


def _budget(case: Case) -> Budgeted:
    max_chars = math.floor(case.config.get("maxChars", DEFAULT_MAX_CHARS))
    total = math.floor(case.config.get("totalMaxChars", max(max_chars, DEFAULT_TOTAL_MAX_CHARS)))
    return budget_files(_files(case), max_chars, total)


def _trim(case: Case) -> Any:
    limit = case.input["maxChars"]
    trimmed = trim_file(case.input["content"], case.input["fileName"], limit)
    return {
        "content": trimmed.text,
        "truncated": trimmed.truncated,
        "maxChars": limit,
        "originalLength": trimmed.raw_chars,
    }


def _build(case: Case) -> Any:
    budgeted = _budget(case)
    warnings: list[dict[str, Any]] = []
    for decision in budgeted.decisions:
        kind = decision.data["kind"]
        warning = {"kind": kind} if kind == "budget_low" else {"kind": kind, "name": decision.why.split(" ")[0]}
        if warning not in warnings:  # the original stops at the first file that has no budget
            warnings.append(warning)
    return {"files": [{"path": f.file.path, "content": f.text} for f in budgeted.files], "warnings": warnings}


def _report(case: Case) -> Any:
    budgeted = _budget(case)
    files = (*budgeted.files, *budgeted.left_out)
    stats = [
        {
            "name": f.file.name,
            "path": f.file.path,
            "missing": f.file.missing,
            "rawChars": f.raw_chars,
            "injectedChars": len(f.text),
            "truncated": bool(f.causes),
        }
        for f in files
    ]
    near = [f.file.name for f in files if f.near_limit]
    if case.version == "2026.9":
        cut = [[f.file.name, list(f.causes), f.limit] for f in files if f.causes]
        return {"stats": stats, "truncated": cut, "nearLimit": near, "totalNearLimit": budgeted.near_total}
    raw = sum(f.raw_chars for f in files)
    return {
        "stats": stats,
        "analysis": {
            "truncated": [[f.file.name, sorted(f.causes)] for f in files if f.causes],
            "nearLimit": near,
            "totalNearLimit": budgeted.near_total,
            "totals": {
                "rawChars": raw,
                "injectedChars": budgeted.injected_chars,
                "truncatedChars": max(0, raw - budgeted.injected_chars),
                "bootstrapMaxChars": case.config["maxChars"],
                "bootstrapTotalMaxChars": case.config["totalMaxChars"],
                "nearLimitRatio": 0.85,
            },
        },
        # the notice of ours is constant text: there is no signature to remember
        "warning": {"warningShown": budgeted.truncated, "lines": 0, "warningSignaturesSeen": []},
    }


def _limits(case: Case) -> Any:
    lenient = ReadAs(lenient=True)
    tree, _ = repaired(AgentDefaults, case.input["config"].get("agents", {}).get("defaults", {}), lenient)
    settings = AgentDefaults.model_validate(tree, context=lenient)
    return {
        "maxChars": settings.bootstrap_max_chars,
        "totalMaxChars": settings.bootstrap_total_max_chars,
        "warningMode": settings.bootstrap_prompt_truncation_warning,
    }


def _load(case: Case) -> Any:
    with _workspace(case.input["layout"]) as workspace:
        return [
            {"name": file.name, "missing": file.missing, "content": file.content}
            for file in load_bootstrap_files(workspace)
        ]


def _load_extra(case: Case) -> Any:
    with _workspace(case.input["layout"]) as workspace:
        extra = load_extra_files(workspace, case.input["patterns"])
        return {
            "files": [{"name": f.name, "relPath": f.path, "content": f.content} for f in extra.files],
            "diagnostics": [{"relPath": d.path, "reason": d.reason} for d in extra.diagnostics],
        }


def _ensure(case: Case) -> Any:
    layout = case.input["layout"]
    with _workspace(layout) as workspace:
        seed = case.input.get("ensureBootstrapFiles", True)
        ensure_workspace(workspace, NOW, seed=seed)
        got: dict[str, Any] = {"state": _state(workspace)}
        after = case.input.get("after")
        if after:
            for name in after["remove"]:
                (workspace / name).unlink()
            ensure_workspace(workspace, NOW, seed=seed)
            got["stateAfterSecondRun"] = _state(workspace)
        known = (*SEED_FILES, BOOTSTRAP)
        got["created"] = [name for name in known if (workspace / name).exists()]
        got["kept"] = {
            item["name"]: (workspace / item["name"]).read_text(encoding="utf-8") == item["content"]
            for item in layout
            if "content" in item
        }
        return got


def _state(workspace: Path) -> Any:
    path = workspace / STATE_FILE
    if not path.exists():
        return None
    state = json.loads(path.read_text(encoding="utf-8"))
    return {key: "<iso>" if key.endswith("At") else value for key, value in state.items()}


def _named(case: Case) -> list[BootstrapFile]:
    return [BootstrapFile(name, name, "") for name in case.input["names"]]


def _filter(case: Case) -> Any:
    kind = run_set(case.input["sessionKey"])
    names = getattr(default_settings().bootstrap_sets, kind)
    return [file.name for file in select_files(_named(case), kind, names).files]


def _context_mode(case: Case) -> Any:
    files = _named(case)
    if case.input.get("contextMode") == "lightweight":
        files = list(light_files(files, case.input.get("runKind")).files)
    return [file.name for file in files]


def _sections(case: Case) -> Any:
    params = case.input["params"]
    files = [BootstrapFile(Path(f["path"]).name, f["path"], f["content"]) for f in params.get("contextFiles", ())]
    runtime = params.get("runtimeInfo", {})
    facts = PromptFacts(
        mode=params.get("promptMode", "full"),
        workspace=params["workspaceDir"],
        tools=tuple(ToolSpec(name, "", {}) for name in params.get("toolNames", ())),
        files=budget_files(files, 20_000, 150_000).files,
        time_zone=params.get("userTimezone", ""),
        heartbeats="heartbeatPrompt" in params,
        owners=tuple(params.get("ownerNumbers", ())),
        channel=runtime.get("channel", ""),
        runtime={"agent": runtime.get("agentId", ""), "host": runtime.get("host", "")},
    )
    lines = system_text(prompt_sections(facts))[0].split("\n")
    return {
        "headings": [line for line in lines if line.startswith("#")],
        "runtimeLine": next((line for line in lines if line.startswith("Runtime:")), None),
        "blankLinesBetweenSections": "" in lines,
    }


def _compose(case: Case) -> Any:
    text = (case.input.get("baseSystemPrompt") or "").strip()
    base = (Section("base", text),) if text else ()
    additions = PromptAdditions(
        prepend_system_context=case.input.get("prependSystemContext"),
        append_system_context=case.input.get("appendSystemContext"),
    )
    composed = with_hook_context(base, additions)
    return None if composed == base else system_text(composed)[0]


def _additions(answer: Mapping[str, Any]) -> PromptAdditions:
    return PromptAdditions(**{ours: answer[theirs] for theirs, ours in _TEXT_FIELDS.items() if theirs in answer})


def _override(answer: Mapping[str, Any]) -> ModelOverride:
    return ModelOverride(answer.get("modelOverride"), answer.get("providerOverride"))


_ANSWERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "before_prompt_build": _additions,
    "before_model_resolve": _override,
    "before_agent_start": lambda answer: AgentStart(_override(answer), _additions(answer)),
    "before_tool_call": lambda a: ToolVerdict(a.get("params"), bool(a.get("block")), a.get("blockReason")),
    "message_sending": lambda answer: SendingVerdict(answer.get("content"), bool(answer.get("cancel"))),
    "before_message_write": lambda answer: WriteVerdict(
        Message(answer["message"]) if "message" in answer else None, bool(answer.get("block"))
    ),
    "tool_result_persist": lambda answer: Message(answer["message"]) if "message" in answer else None,
}


def _handler(hook: str, spec: Mapping[str, Any], order: list[str]) -> Handler:
    plugin = spec["pluginId"]

    def run(message: Message | None = None) -> Any:
        order.append(plugin)
        if "throws" in spec:
            raise RuntimeError(spec["throws"])
        if "asyncResult" in spec:

            async def later() -> Any:
                return spec["asyncResult"]

            return later()
        if spec.get("echoMessage") and message is not None:
            changed = message.evolve(seen=[*message.raw.get("seen", []), plugin])
            return changed if hook == "tool_result_persist" else WriteVerdict(changed)
        return _ANSWERS[hook](spec["returns"]) if spec.get("returns") is not None else None

    arguments = ("message",) if hook in ("tool_result_persist", "before_message_write") else ()
    return Handler(plugin, run, arguments, spec.get("priority") or 0)


def _hook(case: Case) -> Any:
    hook = case.function.removeprefix("hook:")
    order: list[str] = []
    handlers = [_handler(hook, spec, order) for spec in case.input["handlers"]]
    hooks = Hooks({hook: handlers}, catch_errors=case.input.get("catchErrors", True))
    try:
        result, decisions = asyncio.run(_ask(hooks, hook, case.input["event"]))
    except PluginError:
        return {"result": {"raised": True}, "order": order, "logs": []}
    logs = [{"failed": "error", "warned": "warn"}.get(decision.what) for decision in decisions]
    return {"result": result, "order": order, "logs": [log for log in logs if log]}


async def _ask(hooks: Hooks, hook: str, event: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    context = HookContext()
    prompt = event.get("prompt", "")
    message = Message(event.get("message", {}))
    if hook == "before_prompt_build":
        built = await hooks.before_prompt_build(prompt, (), context)
        return _texts(built.additions), built.decisions
    if hook in ("before_model_resolve", "before_agent_start"):
        choice = await hooks.before_model_resolve(prompt, context)
        texts = _texts(choice.started.prompt) if choice.started else {}
        chosen = {"modelOverride": choice.override.model, "providerOverride": choice.override.provider}
        return chosen | (texts or {}), choice.decisions
    if hook == "before_tool_call":
        gate = await hooks.before_tool_call(event["toolName"], event["params"], "t1", context)
        result = {"params": gate.adjusted, "block": gate.blocked or None, "blockReason": gate.reason or None}
        return result if any(value is not None for value in result.values()) else None, gate.decisions
    if hook == "message_sending":
        sent = await hooks.message_sending(event["content"], event.get("to", ""), context)
        if sent.adjusted is None and not sent.cancelled:
            return None, sent.decisions
        return {"content": sent.adjusted, "cancel": sent.cancelled or None}, sent.decisions
    if hook == "tool_result_persist":
        written = hooks.tool_result_persist(message, "", "", context)
        return {"message": written.message.raw if written.message else None}, written.decisions
    written = hooks.before_message_write(message, context)
    if written.message is None:
        return {"block": True}, written.decisions
    return ({"message": written.message.raw} if written.message is not message else None), written.decisions


def _texts(additions: PromptAdditions) -> dict[str, str] | None:
    texts = {theirs: value for theirs, ours in _TEXT_FIELDS.items() if (value := getattr(additions, ours))}
    return texts or None


HOOKS = (
    "before_prompt_build",
    "before_model_resolve",
    "before_agent_start",
    "before_tool_call",
    "message_sending",
    "tool_result_persist",
    "before_message_write",
)

ADAPTERS: dict[str, Callable[[Case], object]] = {
    "trim_bootstrap_content": _trim,
    "build_bootstrap_context_files": _build,
    "bootstrap_budget_report": _report,
    "resolve_bootstrap_limits": _limits,
    "load_workspace_bootstrap_files": _load,
    "load_extra_bootstrap_files": _load_extra,
    "ensure_agent_workspace": _ensure,
    "filter_bootstrap_files_for_session": _filter,
    "apply_context_mode_filter": _context_mode,
    "strip_front_matter": lambda case: strip_front_matter(case.input["content"]),
    "resolve_prompt_mode_for_session": lambda case: prompt_mode(case.input["sessionKey"]),
    "system_prompt_sections": _sections,
    "sanitize_for_prompt_literal": lambda case: prompt_literal(case.input["value"]),
    "wrap_untrusted_prompt_data_block": lambda case: untrusted_block(
        case.input["label"], case.input["text"], case.input.get("maxChars")
    ),
    "compose_system_prompt_with_hook_context": _compose,
    **{f"hook:{hook}": _hook for hook in HOOKS},
}
