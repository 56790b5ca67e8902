"""The Prefect flows of a run over two work pools: ``part`` runs some stages in one clone, ``spread`` all, in turn.

``prefect-pools.yaml`` deploys them. Before either begins, Prefect brings the clone up to date by ``git pull``.
"""

from typing import Annotated

from prefect import flow
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from pydantic import Field
from rich.console import Console

from pipeline.running.dag import read_dag
from pipeline.running.flows import StagesFailed, Target
from pipeline.running.parts import parts_of, published_commit, run_part
from pipeline.running.reproduction import reproduce_project

_POLL_SECONDS = 1.0

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$", description="that the clone must have")]


@flow(name="part", description="Run some stages in this clone, with what others have made.")
def part(targets: list[Target], commit: Commit) -> None:
    """Run ``targets`` alone; take what they read from DVC's remote, and hand on what they make.

    Args:
        targets: stage instances such as ``train_hcl@hcl``.
        commit: with which the run began, of the branch that this clone follows.

    Raises:
        StagesFailed: at least one stage failed. What succeeded has been handed on.
        InputError: git or DVC's remote does not do its part.
    """
    console = Console(stderr=True)
    if not run_part(targets, commit, lambda: reproduce_project(targets, console, within_flow=True, only=True), console):
        raise StagesFailed("the logs of the task runs say why")


@flow(name="spread", description="Bring every artifact up to date, in parts on two work pools.")
def spread(targets: list[Target] | None = None) -> None:
    """Bring ``targets`` and what they need up to date, each part by the deployment of its place.

    Args:
        targets: stages or instances; everything by default.

    Raises:
        StagesFailed: a part failed, and those after it have not begun.
        InputError: the params or the code here are not those that other machines get.
    """
    commit = published_commit()
    for number, one in enumerate(parts_of(read_dag(targets=targets or [])), 1):
        run = run_deployment(f"part/{one.place}", parameters={"targets": list(one.names), "commit": commit},
                             flow_run_name=f"{number} {one.place}", poll_interval=_POLL_SECONDS)
        assert isinstance(run, FlowRun)  # a coroutine only where a loop calls it
        if run.state is None or not run.state.is_completed():
            raise StagesFailed(f"part {number}, on the {one.place} pool, failed: {run.state}")
