"""The ledger's tables: who the tenants are, what they asked, what was tried, decided and promoted.

Rules that the schema itself keeps:

* one live lease per device and per trial (`leases` keys);
* a candidate has at most one trial per data version that is not `lost` or `cancelled`;
* a quality is set exactly when a trial succeeded, is finite and in [0, 1];
* `decisions` and `promotions` are append-only (a trigger refuses UPDATE and DELETE);
* what a champion reaches on other data is finite, too, and its quality in [0, 1] (`rescores`).

Budgets are sums over `trials`, free devices are counted from `leases`: nothing is a counter that could
drift. Times are UTC; costs are seconds; qualities are in [0, 1], higher is better.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    Sequence,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class TaskState(StrEnum):
    """Where a task is in its life."""

    OPEN = "open"  # wants training
    PAUSED = "paused"  # by its tenant
    DONE = "done"  # budget used, goal reached or every candidate tried
    FAILED = "failed"  # too many trials failed the same way
    CANCELLED = "cancelled"  # by its tenant
    REJECTED = "rejected"  # the spec or data has problems and there is no earlier version to go on with


class TrialState(StrEnum):
    """Where a trial is: planned → leased → running → one of the others."""

    PLANNED = "planned"  # an attempt was lost or interrupted; waits for its next one
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DIVERGED = "diverged"
    LOST = "lost"  # vanished `max_attempts` times
    CANCELLED = "cancelled"

    @property
    def live(self) -> bool:
        """Whether the trial still takes budget that is reserved, not yet charged."""
        return self in (TrialState.PLANNED, TrialState.LEASED, TrialState.RUNNING)


_TRIAL_LIVE = "state IN ('planned', 'leased', 'running')"
_TRIAL_COUNTS = "state NOT IN ('lost', 'cancelled')"


class Base(DeclarativeBase):
    """Base of all tables; every constraint gets a name, so that migrations can refer to it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
    }


# Gives `Trial.ended_order`: the position of a trial's end among all trials of all tasks.
TRIAL_ENDS = Sequence("trial_ends", data_type=BigInteger(), metadata=Base.metadata)


def _identity() -> Mapped[int]:
    return mapped_column(BigInteger, Identity(always=True), primary_key=True)


def _now() -> Mapped[datetime]:
    return mapped_column(server_default=func.clock_timestamp())


class Tenant(Base):
    """A research group; appears with its first upload."""

    __tablename__ = "tenants"
    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = _now()


class Task(Base):
    """One task of a tenant: its latest accepted spec and its state.

    `spec` is the normalised `task.yaml`; `problems` are those of the latest rejected upload (an accepted
    earlier version goes on). Budgets of None mean no limit.
    """

    __tablename__ = "tasks"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    id: Mapped[int] = _identity()
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    state: Mapped[str]
    state_reason: Mapped[str] = mapped_column(server_default="")
    spec: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))
    spec_digest: Mapped[str] = mapped_column(server_default="")
    program: Mapped[str] = mapped_column(server_default="")
    template: Mapped[str] = mapped_column(server_default="")
    objective: Mapped[str] = mapped_column(server_default="")
    weight: Mapped[float] = mapped_column(server_default="1")
    budget_trials: Mapped[int | None]
    budget_seconds: Mapped[float | None]
    deadline: Mapped[datetime | None]
    stop_quality: Mapped[float | None]  # `stop_when`, already turned into a quality
    data_version_id: Mapped[int | None] = mapped_column(
        ForeignKey("data_versions.id", use_alter=True, name="fk_tasks_data_version_id")
    )
    problems: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))
    created_at: Mapped[datetime] = _now()
    updated_at: Mapped[datetime] = _now()
    data_version: Mapped[DataVersion | None] = relationship(foreign_keys=[data_version_id])


class DataVersion(Base):
    """An immutable, staged data version of a task (`naming.version_dir`)."""

    __tablename__ = "data_versions"
    __table_args__ = (UniqueConstraint("task_id", "digest"),)
    id: Mapped[int] = _identity()
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    digest: Mapped[str]
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("data_versions.id"))
    n_train: Mapped[int]
    n_val: Mapped[int]
    facts: Mapped[dict[str, Any]]  # shapes, dtype, classes, dynamic range: what version.json says
    created_at: Mapped[datetime] = _now()


class Candidate(Base):
    """A candidate model of a task; `offered` is False once the spec excludes it."""

    __tablename__ = "candidates"
    __table_args__ = (UniqueConstraint("task_id", "name"),)
    id: Mapped[int] = _identity()
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    name: Mapped[str]  # a naming.CandidateName
    offered: Mapped[bool] = mapped_column(server_default=text("true"))


class Trial(Base):
    """One candidate trained on one data version. Charged once, whatever number of attempts it took.

    `reserved_seconds` counts against the budget while the trial lives; `cost_seconds`, the compute time
    of all its attempts, does so afterwards.
    """

    __tablename__ = "trials"
    __table_args__ = (
        Index(
            "uq_trials_candidate_version",
            "candidate_id",
            "data_version_id",
            unique=True,
            postgresql_where=text(_TRIAL_COUNTS),
        ),
        Index("ix_trials_live", "state", postgresql_where=text(_TRIAL_LIVE)),
        Index("ix_trials_task_id", "task_id"),
        CheckConstraint("(quality IS NOT NULL) = (state = 'succeeded')", name="quality_iff_succeeded"),
        CheckConstraint("quality >= 0 AND quality <= 1", name="quality_range"),
        CheckConstraint("score > '-Infinity' AND score < 'Infinity'", name="score_finite"),
        CheckConstraint("cost_seconds >= 0 AND cost_seconds < 'Infinity'", name="cost_finite"),
        CheckConstraint("reserved_seconds >= 0 AND reserved_seconds < 'Infinity'", name="reserved_finite"),
    )
    id: Mapped[int] = _identity()
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    data_version_id: Mapped[int] = mapped_column(ForeignKey("data_versions.id"))
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(server_default="0")  # number of the latest attempt
    predicted_seconds: Mapped[float]
    reserved_seconds: Mapped[float]
    cost_seconds: Mapped[float] = mapped_column(server_default="0")
    quality: Mapped[float | None]
    score: Mapped[float | None]
    reason: Mapped[str] = mapped_column(server_default="")
    failure: Mapped[str | None]  # failed, out_of_memory, deadline, no_result …: the kind that is counted
    result: Mapped[dict[str, Any] | None]
    mlflow_run_id: Mapped[str | None]
    model_uri: Mapped[str | None]
    ended_order: Mapped[int | None] = mapped_column(BigInteger)  # from the sequence `trial_ends`
    created_at: Mapped[datetime] = _now()
    ended_at: Mapped[datetime | None]
    task: Mapped[Task] = relationship()
    candidate: Mapped[Candidate] = relationship()
    data_version: Mapped[DataVersion] = relationship()


class Attempt(Base):
    """One try at running a trial; its number is the fencing token of all its writes."""

    __tablename__ = "attempts"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    device: Mapped[str]
    state: Mapped[str]  # leased, running, then an Outcome, fault or lost
    reason: Mapped[str] = mapped_column(server_default="")
    seconds: Mapped[float] = mapped_column(server_default="0")
    mlflow_run_id: Mapped[str | None]
    started_at: Mapped[datetime] = _now()
    ended_at: Mapped[datetime | None]


class Lease(Base):
    """A device taken by an attempt until `expires_at`, unless renewed. A free device has no live row."""

    __tablename__ = "leases"
    device: Mapped[str] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), unique=True)
    attempt: Mapped[int]
    expires_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime] = _now()


class DecisionRecord(Base):
    """Why a trial was started: written in the same transaction as its first lease. Append-only."""

    __tablename__ = "decisions"
    __table_args__ = (
        CheckConstraint("score > '-Infinity' AND score < 'Infinity'", name="score_finite"),
        CheckConstraint("deviation >= 0 AND deviation < 'Infinity'", name="deviation_finite"),
        CheckConstraint(
            "expected_quality > '-Infinity' AND expected_quality < 'Infinity'", name="expected_finite"
        ),
    )
    id: Mapped[int] = _identity()
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), index=True)
    device: Mapped[str]
    policy: Mapped[str]
    reason: Mapped[str]
    expected_quality: Mapped[float]
    deviation: Mapped[float]
    predicted_seconds: Mapped[float]
    score: Mapped[float]
    runners_up: Mapped[list[Any]]
    fallbacks: Mapped[list[Any]]
    memory: Mapped[dict[str, Any]]
    seen: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))  # allocator.seen
    made_at: Mapped[datetime] = _now()


class Promotion(Base):
    """A trial's model became its task's champion. Append-only; the latest row is the champion.

    `quality` is the trial's, on the data version that it was trained on; see `Rescore` for others.
    """

    __tablename__ = "promotions"
    id: Mapped[int] = _identity()
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"), index=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"))
    model_version: Mapped[str]
    quality: Mapped[float]
    reason: Mapped[str]
    made_at: Mapped[datetime] = _now()


class Rescore(Base):
    """What the model of a trial, a champion, reaches on a data version other than its own.

    It is there from the first of `tries` on; the verdict, written once, sets `made_at`, and either score
    and quality or the `reason` why there are none.
    """

    __tablename__ = "rescores"
    __table_args__ = (
        CheckConstraint("(quality IS NULL) = (score IS NULL)", name="quality_iff_score"),
        CheckConstraint("made_at IS NOT NULL OR quality IS NULL", name="quality_is_verdict"),
        CheckConstraint("quality >= 0 AND quality <= 1", name="quality_range"),
        CheckConstraint("score > '-Infinity' AND score < 'Infinity'", name="score_finite"),
    )
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    data_version_id: Mapped[int] = mapped_column(ForeignKey("data_versions.id"), primary_key=True)
    tries: Mapped[int] = mapped_column(server_default=text("0"))
    score: Mapped[float | None]
    quality: Mapped[float | None]
    reason: Mapped[str] = mapped_column(server_default="")
    made_at: Mapped[datetime | None]


class Upload(Base):
    """What intake last saw of one prefix of the bucket, and what it last finished with.

    A prefix (`clinic/tumours`, or `clinic/tumours/infer/r1`) has settled when `seen_fingerprint` has not
    changed since `seen_at` for the set time; it is pending while it differs from `done_fingerprint`.
    Where taking it failed `failures` times at `tried_fingerprint`, it rests until `retry_at`. `problems` are
    what its tenant is told of it for as long as it stays as it is.
    """

    __tablename__ = "uploads"
    prefix: Mapped[str] = mapped_column(primary_key=True)
    seen_fingerprint: Mapped[str]
    seen_at: Mapped[datetime]
    done_fingerprint: Mapped[str | None]
    done_at: Mapped[datetime | None]
    tried_fingerprint: Mapped[str | None]
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    retry_at: Mapped[datetime | None]
    problems: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))


class Inference(Base):
    """One inference request of a tenant, by content: the same bytes under the same name are answered once."""

    __tablename__ = "inferences"
    __table_args__ = (UniqueConstraint("task_id", "request", "fingerprint"),)
    id: Mapped[int] = _identity()
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    request: Mapped[str]
    fingerprint: Mapped[str]
    state: Mapped[str]  # waiting (no champion yet), done, rejected
    model_version: Mapped[str | None]
    problems: Mapped[list[Any]] = mapped_column(server_default=text("'[]'::jsonb"))
    updated_at: Mapped[datetime] = _now()
