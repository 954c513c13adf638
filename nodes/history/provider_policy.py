"""What each provider requires of a history, as data (spec/context.md 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

IdMode = Literal["strict", "strict9"]

_ALIASES = {
    "z.ai": "zai",
    "z-ai": "zai",
    "opencode-zen": "opencode",
    "opencode-go-auth": "opencode-go",
    "kimi-code": "kimi",
    "kimi-coding": "kimi",
    "bedrock": "amazon-bedrock",
    "aws-bedrock": "amazon-bedrock",
    "qwen": "qwen-portal",
    "doubao": "volcengine",
    "bytedance": "volcengine",
    # The names that langchain-core uses for the same services.
    "google_genai": "google",
    "google-genai": "google",
    "mistralai": "mistral",
    "azure_openai": "openai",
}
_GOOGLE_APIS = frozenset({"google-generative-ai", "google-gemini-cli"})
_ANTHROPIC_APIS = frozenset({"anthropic-messages", "bedrock-converse-stream"})
RESPONSES_APIS = frozenset({"openai-responses", "openai-codex-responses"})
_DEFAULT_APIS = {
    "anthropic": "anthropic-messages",
    "anthropic-vertex": "anthropic-messages",
    "amazon-bedrock": "bedrock-converse-stream",
    "google": "google-generative-ai",
    "openai": "openai-completions",
}
_MISTRAL_NAMES = ("mistral", "mixtral", "codestral", "pixtral", "devstral", "ministral", "mistralai")
# Model families that need their own reasoning back with the history (spec/context.md 4.1, newer release).
_WANTS_REASONING = ("deepseek-reasoner", "kimi-k2-thinking", "glm-4.6", "glm-4.7", "minimax-m2")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A row of the provider table: what the provider is, beyond its API."""

    family: Literal["anthropic", "openai", ""] = ""
    drops_thinking_of: str = ""
    strict9: bool = False
    gemini_signatures: bool = False
    orders_turns: bool = True
    keeps_anthropic_signatures: bool = True


_DEFAULT = Capabilities()
_TABLE: dict[str, Capabilities] = {
    "anthropic": Capabilities(family="anthropic", drops_thinking_of="claude"),
    "anthropic-vertex": Capabilities(family="anthropic", drops_thinking_of="claude"),
    "amazon-bedrock": Capabilities(family="anthropic", drops_thinking_of="claude"),
    "openai": Capabilities(family="openai"),
    "openai-codex": Capabilities(family="openai"),
    "mistral": Capabilities(strict9=True),
    "github-copilot": Capabilities(drops_thinking_of="claude"),
    "openrouter": Capabilities(gemini_signatures=True, orders_turns=False),
    "opencode": Capabilities(gemini_signatures=True, orders_turns=False),
    "opencode-go": Capabilities(gemini_signatures=True, orders_turns=False),
    "kilocode": Capabilities(gemini_signatures=True),
    "kimi": Capabilities(keeps_anthropic_signatures=False),
}


@dataclass(frozen=True, slots=True)
class TranscriptPolicy:
    """What a history must look like for one provider, API and model.

    Attributes:
        full_clean_up: blank text and foreign signatures go; otherwise only images are looked at.
        id_mode: form of tool-call ids; ``None`` keeps ids that OpenAI accepts.
        keep_kimi_ids: ids of the form ``functions.name:0`` stay as the model made them.
        keep_anthropic_ids: ids of the form ``toolu_...`` stay: the provider made them.
        preserve_signatures: signed thinking of Anthropic models stays as it is.
        clean_thought_signatures: thought signatures that are not base64 go (Gemini).
        drop_thinking: thinking goes from all but the newest assistant turn.
        drop_reasoning: thinking goes except in the running tool round.
        google_ordering: the first turn must be a user's.
        merge_assistants, merge_users: turns of one role in a row become one.
        synthetic_results: the write guard may add results for calls that have none.
        responses: reasoning items and their calls come in pairs (OpenAI Responses).
        results_before_user: a user turn must not follow a tool result directly (Mistral).
    """

    full_clean_up: bool = False
    id_mode: IdMode | None = None
    keep_kimi_ids: bool = False
    keep_anthropic_ids: bool = False
    preserve_signatures: bool = False
    clean_thought_signatures: bool = False
    drop_thinking: bool = False
    drop_reasoning: bool = False
    google_ordering: bool = False
    merge_assistants: bool = False
    merge_users: bool = False
    synthetic_results: bool = False
    responses: bool = False
    results_before_user: bool = False

    @property
    def alternates(self) -> bool:
        """Whether two turns of one role may not stand next to each other."""
        return self.merge_assistants or self.merge_users


def normalize_provider(provider: str | None) -> str:
    """Return the id that the table uses for a provider."""
    name = (provider or "").strip().lower()
    return _ALIASES.get(name, name)


@cache
def resolve_policy(provider: str | None, api: str | None, model_id: str | None) -> TranscriptPolicy:
    """Return what ``model_id`` at ``provider`` through ``api`` requires of a history.

    An unknown provider gets the row of its API; routers are taken to be strict about turns (known-faults 3.4), and
    models of the Mistral family get nine-character ids on every route (known-faults 3.5).
    """
    name = normalize_provider(provider)
    row = _TABLE.get(name, _DEFAULT)
    api = api or _DEFAULT_APIS.get(name, "openai-completions" if name else None)
    model = (model_id or "").lower()
    google = api in _GOOGLE_APIS
    anthropic = api in _ANTHROPIC_APIS or row.family == "anthropic"
    openai = row.family == "openai" or (not name and api in RESPONSES_APIS)
    mistral = row.strict9 or any(part in model for part in _MISTRAL_NAMES)
    compatible = api == "openai-completions" and not openai
    gemini = row.gemini_signatures and "gemini" in model
    wants_ids = api == "openai-completions" or (not openai and api in RESPONSES_APIS)
    rewrites_ids = wants_ids or (not openai and (google or mistral or anthropic))
    return TranscriptPolicy(
        full_clean_up=not openai and (google or anthropic or row.strict9 or gemini),
        id_mode=("strict9" if mistral else "strict") if rewrites_ids else None,
        keep_kimi_ids=name == "kimi" or "moonshot" in name or "kimi" in model,
        keep_anthropic_ids=row.family == "anthropic",
        preserve_signatures=anthropic and row.keeps_anthropic_signatures,
        clean_thought_signatures=not openai and (gemini or google),
        drop_thinking=_drops_thinking(row, name, api, model),
        drop_reasoning=compatible and name not in _TABLE and not any(part in model for part in _WANTS_REASONING),
        google_ordering=not openai and (google or (compatible and row.orders_turns)),
        merge_assistants=not openai and (google or compatible),
        merge_users=not openai and (anthropic or compatible),
        synthetic_results=not openai and (google or anthropic),
        responses=api in RESPONSES_APIS,
        results_before_user=mistral,
    )


def _drops_thinking(row: Capabilities, name: str, api: str | None, model: str) -> bool:
    if row.drops_thinking_of:
        return row.drops_thinking_of in model
    # A provider that the table does not know, spoken to in Anthropic's own protocol.
    return name not in _TABLE and api in _ANTHROPIC_APIS and "claude" in model
