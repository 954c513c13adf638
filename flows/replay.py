"""Flow ``replay``: replay a recorded transcript into an output folder.

Source: design decision 12.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from prefect import State, flow
from prefect.states import Completed

from flows.recording import publish
from turngraph.api import open_home
from turngraph.replay.run import replay_file


@flow(name="replay", flow_run_name="{transcript}", persist_result=False)
async def replay(transcript: str, out: str, agent_id: str | None = None, home: str | None = None) -> State[Any]:
    """Replay one transcript.

    Args:
        transcript: path of the file; it is read, never written.
        out: folder for traces and summary; it appears when the replay is complete.
        agent_id: whose settings count.
        home: folder of the home.
    """
    settings = open_home(home or os.environ.get("TURNGRAPH_HOME")).settings.agent(agent_id)
    run = await asyncio.to_thread(replay_file, Path(transcript), settings, out=Path(out))
    lines = "\n".join(f"| {name} | {value} |" for name, value in run.summary.items())
    line = f"{Path(transcript).name}: {len(run.turns)} turns"
    await publish(f"replay-{Path(transcript).stem}", f"# {line}\n\n| | |\n|---|---|\n{lines}\n\nIn `{out}`\n", line)
    return Completed(message=line)
