"""What the ledger's past says of the future: how long candidates take, and how good they tend to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from easeml_core.allocator import priors
from easeml_core.allocator.cost import CostModel, CostObservation
from easeml_core.allocator.types import Array, Prior
from easeml_core.ledger.models import Attempt, Candidate, DataVersion, Task, Trial, TrialState
from easeml_core.naming import CandidateName, cuda_index, process_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from easeml_core.catalog.facts import Machine, NetworkCosts

# The latest are the most alike; the fit's time grows with their number, and a decision waits for it.
COST_OBSERVATIONS = 100
HISTORY_ROWS = 4000


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the work of a trial depends on, of one data version."""

    shape: tuple[int, ...]
    outputs: int
    n_train: int
    mean_length: float


def sizes_of(facts: Mapping[str, Any]) -> Sizes:
    """The sizes in a data version's facts."""
    return Sizes(
        tuple(int(size) for size in facts["shape"]),
        int(facts["outputs"]),
        int(facts["n_train"]),
        float(facts.get("mean_length") or 1.0),
    )


def is_known(candidate: str) -> bool:
    """Whether the catalogue (still) has the candidate's model; the ledger may remember others."""
    from easeml_core.catalog import MODELS

    return _model(candidate) in MODELS


@cache
def _model(candidate: str) -> str:
    return CandidateName.parse(candidate).model


def work_of(candidate: str, sizes: Sizes, *, gpu: bool) -> float:
    """FLOPs of a whole trial of a candidate on such data, with all that it does besides on such hardware."""
    return float(works_of((candidate,), sizes, gpu=gpu)[0])


def works_of(candidates: tuple[str, ...], sizes: Sizes, *, gpu: bool) -> Array:
    """`work_of` each of many candidates of a task, `(A,)`."""
    models, places = _models(candidates)
    networks = _network_costs(models, sizes.shape, sizes.outputs, sizes.mean_length, gpu)
    n_train = max(1, sizes.n_train)
    works = [
        _fit_work(model, sizes, gpu) if costs is None else costs.work(n_train)
        for model, costs in zip(models, networks, strict=True)
    ]
    return np.array(works)[places]


@cache
def _models(candidates: tuple[str, ...]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The models among candidates, and the place of each candidate's: those that differ in their normaliser
    do the same work."""
    models = [_model(candidate) for candidate in candidates]
    different = sorted(set(models))
    return tuple(different), np.array([different.index(model) for model in models], dtype=np.int64)


# Many tasks have data of the same shape, and differ only in how many examples there are.
@cache
def _network_costs(
    models: tuple[str, ...], shape: tuple[int, ...], outputs: int, mean_length: float, gpu: bool
) -> tuple[NetworkCosts | None, ...]:
    """None for each model that is no network."""
    from easeml_core.catalog import MODELS
    from easeml_core.catalog.facts import Size

    size, machine = Size(shape, outputs, mean_length=max(1.0, mean_length)), _machine(gpu)
    facts = [MODELS[model] for model in models]
    return tuple(found.network_costs(size, machine) if found.fit is None else None for found in facts)


@cache
def _fit_work(model: str, sizes: Sizes, gpu: bool) -> float:
    from easeml_core import catalog

    return catalog.work(
        model,
        shape=sizes.shape,
        outputs=sizes.outputs,
        n_train=sizes.n_train,
        mean_length=sizes.mean_length,
        machine=_machine(gpu),
    )


def _machine(gpu: bool) -> Machine:
    from easeml_core.catalog.facts import CPU, GPU

    return GPU if gpu else CPU


@cache
def device_kind(device: str, candidate: str) -> str:
    """What the costs of a candidate on a device are compared with: `gpu/torch`, `gpux4/torch`, `cpu/sklearn`.

    `gpu` stands for any CUDA device, `cpu` for anything else, as the trainer sees it; `x4` for four as one.
    """
    from easeml_core.catalog import MODELS

    framework = MODELS[_model(candidate)].framework
    hardware = "cpu" if cuda_index(device) is None else "gpu"
    processes = process_count(device) if framework == "torch" else 1
    return f"{hardware}{f'x{processes}' if processes > 1 else ''}/{framework}"


def cost_model(session: Session) -> CostModel:
    """The cost model fitted to the latest trials of any task that ended before their limit."""
    # Chosen before anything is joined: only these few of all trials need more than their own row.
    ended = (
        select(Trial)
        .where(
            Trial.state == TrialState.SUCCEEDED,
            Trial.cost_seconds > 0,
            Trial.cost_seconds < Trial.reserved_seconds,
        )
        .order_by(Trial.ended_order.desc())
        .limit(COST_OBSERVATIONS)
    )
    latest, facts = aliased(Trial, ended.subquery()), DataVersion.facts
    rows = session.execute(
        select(
            Candidate.name,
            Attempt.device,
            latest.cost_seconds,
            facts["shape"],
            facts["outputs"],
            facts["mean_length"],
            DataVersion.n_train,
        )
        .select_from(latest)
        .join(Candidate, Candidate.id == latest.candidate_id)
        .join(DataVersion, DataVersion.id == latest.data_version_id)
        .join(Attempt, (Attempt.trial_id == latest.id) & (Attempt.number == latest.attempt))
    )
    observations = []
    for name, device, seconds, shape, outputs, mean_length, n_train in rows:
        if not is_known(name):
            continue
        sizes = Sizes(tuple(shape), int(outputs), n_train, float(mean_length or 1.0))
        work = work_of(name, sizes, gpu=cuda_index(device) is not None)
        observations.append(CostObservation(name, device_kind(device, name), work, seconds))
    return CostModel.fit(observations)


def prior_of(template: str, arms: Sequence[str], history: Sequence[priors.TaskHistory]) -> Prior:
    """The prior over the arms of one template: catalogue facts, moved by what other tasks showed.

    Of an arm or template that the catalogue does not know it says nothing.
    """
    from easeml_core import catalog

    known = [arm for arm in arms if is_known(arm)]
    features = {arm: catalog.features(arm) for arm in known}
    strengths = {
        arm: catalog.strength(arm, template)
        for arm in known
        if template in catalog.MODELS[CandidateName.parse(arm).model].expected
    }
    return priors.build(template, arms, history, features, strengths)


def histories(
    session: Session, templates: Iterable[str], answers: Iterable[int]
) -> dict[str, list[priors.TaskHistory]]:
    """Best qualities per candidate of each data version, by template.

    `answers` are data versions left out: their results are what the open tasks themselves have observed.
    Earlier data versions of a task are history, not answers.
    """
    key = (Task.template, Task.tenant_id, Task.name, DataVersion.digest, Candidate.name)
    query = (
        select(*key, func.max(Trial.quality))
        .select_from(Trial)
        .join(Task, Task.id == Trial.task_id)
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .join(DataVersion, DataVersion.id == Trial.data_version_id)
        .where(
            Trial.state == TrialState.SUCCEEDED,
            Task.template.in_(list(templates)),
            Trial.data_version_id.not_in(list(answers)),
        )
        .group_by(*key)
        .order_by(func.max(Trial.ended_order).desc())
        .limit(HISTORY_ROWS)
    )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for template, tenant, task, digest, candidate, quality in session.execute(query):
        versions = found.setdefault(template, {})
        versions.setdefault(f"{tenant}/{task}@{digest[:8]}", {})[candidate] = float(quality or 0.0)
    return {
        template: [priors.TaskHistory(name, qualities) for name, qualities in versions.items()]
        for template, versions in found.items()
    }
