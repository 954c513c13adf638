"""Hand due work to the workers of a Prefect work pool, and wait for its end.

Source: spec/scheduling.md C1, Work pools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.schemas.objects import State

LOOK_S = 1.0
NO_WORKER_S = 60.0  # a run that waits for longer than this gets one warning

log = logging.getLogger("turngraph.serve")


@dataclass(slots=True)
class WorkPool:
    """The pool that ``serve.workPool`` names, for one home."""

    name: str
    home: Path
    _warned: bool = False

    async def run(self, flow: str, parameters: Mapping[str, Any], key: str) -> State[Any] | None:
        """Run a deployment of ``flow`` and return its final state; ``None`` without a deployment or a server.

        A run that no worker has begun yet is cancelled when this is.

        Args:
            flow: name of one of our flows.
            parameters: its parameters; the home is added.
            key: what makes the run this one, so that it is not made twice.
        """
        from prefect.deployments.flow_runs import arun_deployment

        try:
            deployment = await self._deployment(flow)
            if deployment is None:
                self._warn(f"no deployment of {flow} uses the work pool {self.name}; it runs here")
                return None
            run = await arun_deployment(
                deployment,
                parameters={**parameters, "home": str(self.home)},
                idempotency_key=key,
                as_subflow=False,
                timeout=0,
            )
        except Exception as error:  # whatever the client raises without a server
            self._warn(f"the work pool {self.name} takes no {flow} ({type(error).__name__}); it runs here")
            return None
        try:
            return await self._ended(run.id)
        except asyncio.CancelledError:
            await _cancel_waiting(run.id)
            raise

    async def _deployment(self, flow: str) -> UUID | None:
        from prefect import get_client
        from prefect.client.schemas.filters import FlowFilter, FlowFilterName, WorkPoolFilter, WorkPoolFilterName

        async with get_client() as client:
            found = await client.read_deployments(
                flow_filter=FlowFilter(name=FlowFilterName(any_=[flow])),
                work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[self.name])),
                limit=1,
            )
        return found[0].id if found else None

    async def _ended(self, flow_run_id: UUID) -> State[Any]:
        """Wait until a flow run has ended; a server that is away for a while is asked again."""
        from prefect import get_client

        waited_s = 0.0
        while True:
            try:
                async with get_client() as client:
                    state = (await client.read_flow_run(flow_run_id)).state
                if state is not None and state.is_final():
                    return state
                if state is not None and state.is_scheduled() and waited_s >= NO_WORKER_S:
                    self._warn(f"no worker of the pool {self.name} takes a run; start one, or unset serve.workPool")
            except Exception as error:  # as above
                log.info("flow run %s cannot be read: %s", flow_run_id, type(error).__name__)
            await asyncio.sleep(LOOK_S)
            waited_s += LOOK_S

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning(text)


async def _cancel_waiting(flow_run_id: UUID) -> None:
    """Cancel a run unless a worker has begun it: that one ends by itself."""
    from prefect import get_client
    from prefect.states import Cancelled

    async with get_client() as client:
        state = (await client.read_flow_run(flow_run_id)).state
        if state is not None and (state.is_scheduled() or state.is_pending()):
            cancelled: State[Any] = Cancelled(message="serve was stopped before a worker began it")
            await client.set_flow_run_state(flow_run_id, cancelled, force=True)
