"""Where reports get their turns from: the traces of a home, or the output folder of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphs.drawing import Drawable, drawable
from stores.home import Home
from stores.traces import TraceReader
from turngraph.config import AgentSettings, default_settings, load_settings
from turngraph.decisions import TurnTrace
from turngraph.errors import NotFound
from turngraph.session_keys import DEFAULT_AGENT, store_key
from turngraph.viewer.report import turn_report
from turngraph.viewer.texts import OpenTranscript, Texts, transcripts_of_home
from turngraph.viewer.turn_data import STRIP_TURNS, PageRules


@dataclass
class TurnSource:
    """Traced turns, and what is needed to show them.

    Attributes:
        reader: of the traces. settings: for prices and the cache model.
        transcripts: opens transcripts by session id.
        agent_id: whose sessions a short key means.
    """

    reader: TraceReader
    settings: AgentSettings
    transcripts: OpenTranscript
    agent_id: str = DEFAULT_AGENT

    @classmethod
    def of_home(cls, home: Home, agent: str | None = None) -> TurnSource:
        """Read the traces of a home.

        Raises:
            ConfigError: its settings have problems.
            NotFound: it has no such agent.
        """
        import os

        settings = load_settings(home.root, env=os.environ).agent(agent)
        reader = TraceReader(home.traces_dir)
        return cls(reader, settings, transcripts_of_home(home, settings), settings.agent_id)

    @classmethod
    def of_folder(cls, folder: Path) -> TurnSource:
        """Read the output of a replay: its traces, and the transcript of its working copy."""
        traces = folder / "traces" if (folder / "traces").is_dir() else folder
        settings = default_settings()
        home = Home(traces.parent / "home")
        return cls(TraceReader(traces), settings, transcripts_of_home(home, settings))

    def key(self, session: str) -> str:
        """Return the session key that a short one means."""
        return store_key(self.agent_id, session, self.settings.session.main_key)

    @cached_property
    def picture(self) -> Drawable:
        """The compiled graph; langgraph is loaded when the first page is drawn."""
        from graphs.turn import turn_graph

        return drawable(turn_graph())

    def turns(self, key: str, limit: int | None = None) -> list[TurnTrace]:
        """Return the traced turns of a session, oldest first.

        Raises:
            NotFound: there is none.
        """
        found = self.reader.turns(session_key=key, limit=limit)
        if not found:
            raise NotFound(
                f"no traced turn of session {key!r} in {self.reader.root}; `turngraph sessions list` shows them"
            )
        return found

    def report(self, key: str, turn: int | None, rules: PageRules) -> str:
        """Return the report of one turn, the newest when no number is given.

        Raises:
            NotFound: the turn left no trace.
        """
        turns = self.turns(key, None if turn else STRIP_TURNS + 1)
        place = len(turns) - 1
        if turn is not None:
            place = next((i for i in range(len(turns) - 1, -1, -1) if turns[i].turn == turn), -1)
        if place < 0:
            raise NotFound(f"no trace of turn {turn} of session {key!r} in {self.reader.root}")
        return self._page(turns[place : place + 1], turns[max(0, place - STRIP_TURNS) : place], rules)

    def report_of_all(self, key: str, rules: PageRules, verdicts: dict[int, str] | None = None) -> str:
        """Return the report of all turns of a session behind an index; ``verdicts`` of a check, by turn.

        Raises:
            NotFound: there is none.
        """
        return self._page(self.turns(key), (), rules, verdicts)

    def _page(
        self,
        turns: list[TurnTrace],
        earlier: list[TurnTrace] | tuple[()],
        rules: PageRules,
        verdicts: dict[int, str] | None = None,
    ) -> str:
        return turn_report(
            turns,
            earlier=earlier,
            picture=self.picture,
            texts=self.texts(turns[-1].session_id),
            settings=self.settings,
            rules=rules,
            verdicts=verdicts,
        )

    def texts(self, session_id: str) -> Texts:
        """Return where the texts of a session's turns are found."""
        return Texts(self.reader, self.transcripts, session_id)
