"""The ledger's first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("decisions", "promotions")


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
    )
    op.create_table(
        "uploads",
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("seen_fingerprint", sa.String(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_fingerprint", sa.String(), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("prefix", name="pk_uploads"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_reason", sa.String(), server_default="", nullable=False),
        sa.Column("spec", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("spec_digest", sa.String(), server_default="", nullable=False),
        sa.Column("program", sa.String(), server_default="", nullable=False),
        sa.Column("template", sa.String(), server_default="", nullable=False),
        sa.Column("objective", sa.String(), server_default="", nullable=False),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column("budget_trials", sa.Integer(), nullable=True),
        sa.Column("budget_seconds", sa.Double(), nullable=True),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stop_quality", sa.Double(), nullable=True),
        sa.Column("data_version_id", sa.BigInteger(), nullable=True),
        sa.Column("problems", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_tasks_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint("tenant_id", "name", name="uq_tasks_tenant_id_name"),
    )
    op.create_table(
        "candidates",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("offered", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_candidates_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_candidates"),
        sa.UniqueConstraint("task_id", "name", name="uq_candidates_task_id_name"),
    )
    op.create_table(
        "data_versions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=True),
        sa.Column("n_train", sa.Integer(), nullable=False),
        sa.Column("n_val", sa.Integer(), nullable=False),
        sa.Column("facts", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["data_versions.id"], name="fk_data_versions_parent_id"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_data_versions_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_data_versions"),
        sa.UniqueConstraint("task_id", "digest", name="uq_data_versions_task_id_digest"),
    )
    op.create_table(
        "inferences",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("model_version", sa.String(), nullable=True),
        sa.Column("problems", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_inferences_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_inferences"),
        sa.UniqueConstraint(
            "task_id", "request", "fingerprint", name="uq_inferences_task_id_request_fingerprint"
        ),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("candidate_id", sa.BigInteger(), nullable=False),
        sa.Column("data_version_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("predicted_seconds", sa.Double(), nullable=False),
        sa.Column("reserved_seconds", sa.Double(), nullable=False),
        sa.Column("cost_seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("quality", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column("failure", sa.String(), nullable=True),
        sa.Column("result", postgresql.JSONB(), nullable=True),
        sa.Column("mlflow_run_id", sa.String(), nullable=True),
        sa.Column("model_uri", sa.String(), nullable=True),
        sa.Column("ended_order", sa.BigInteger(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(quality IS NOT NULL) = (state = 'succeeded')", name=op.f("ck_trials_quality_iff_succeeded")
        ),
        sa.CheckConstraint("cost_seconds >= 0 AND cost_seconds < 'Infinity'", name=op.f("ck_trials_cost_finite")),
        sa.CheckConstraint(
            "reserved_seconds >= 0 AND reserved_seconds < 'Infinity'", name=op.f("ck_trials_reserved_finite")
        ),
        sa.CheckConstraint("score > '-Infinity' AND score < 'Infinity'", name=op.f("ck_trials_score_finite")),
        sa.CheckConstraint("quality >= 0 AND quality <= 1", name=op.f("ck_trials_quality_range")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name="fk_trials_candidate_id"),
        sa.ForeignKeyConstraint(["data_version_id"], ["data_versions.id"], name="fk_trials_data_version_id"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_trials_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
    )
    op.create_index(
        "ix_trials_live",
        "trials",
        ["state"],
        unique=False,
        postgresql_where=sa.text("state IN ('planned', 'leased', 'running')"),
    )
    op.create_index("ix_trials_task_id", "trials", ["task_id"], unique=False)
    op.create_index(
        "uq_trials_candidate_version",
        "trials",
        ["candidate_id", "data_version_id"],
        unique=True,
        postgresql_where=sa.text("state NOT IN ('lost', 'cancelled')"),
    )
    op.create_table(
        "attempts",
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column("seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("mlflow_run_id", sa.String(), nullable=True),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_attempts_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "number", name="pk_attempts"),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("expected_quality", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=False),
        sa.Column("predicted_seconds", sa.Double(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("runners_up", postgresql.JSONB(), nullable=False),
        sa.Column("fallbacks", postgresql.JSONB(), nullable=False),
        sa.Column("memory", postgresql.JSONB(), nullable=False),
        sa.Column(
            "made_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("deviation >= 0 AND deviation < 'Infinity'", name=op.f("ck_decisions_deviation_finite")),
        sa.CheckConstraint(
            "expected_quality > '-Infinity' AND expected_quality < 'Infinity'",
            name=op.f("ck_decisions_expected_finite"),
        ),
        sa.CheckConstraint("score > '-Infinity' AND score < 'Infinity'", name=op.f("ck_decisions_score_finite")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_decisions_trial_id"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_trial_id", "decisions", ["trial_id"], unique=False)
    op.create_table(
        "leases",
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "heartbeat_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_leases_trial_id"),
        sa.PrimaryKeyConstraint("device", name="pk_leases"),
        sa.UniqueConstraint("trial_id", name="uq_leases_trial_id"),
    )
    op.create_table(
        "promotions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("model_version", sa.String(), nullable=False),
        sa.Column("quality", sa.Double(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column(
            "made_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_promotions_task_id"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_promotions_trial_id"),
        sa.PrimaryKeyConstraint("id", name="pk_promotions"),
    )
    op.create_index("ix_promotions_task_id", "promotions", ["task_id"], unique=False)
    op.create_foreign_key("fk_tasks_data_version_id", "tasks", "data_versions", ["data_version_id"], ["id"])
    op.execute(sa.schema.CreateSequence(sa.Sequence("trial_ends", data_type=sa.BigInteger())))
    op.execute("""
        CREATE FUNCTION easeml_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'table % is append-only: % refused', TG_TABLE_NAME, TG_OP
                USING ERRCODE = 'restrict_violation';
        END $$
    """)
    for table in APPEND_ONLY:
        op.execute(f"""
            CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION easeml_append_only()
        """)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: going back would drop the whole ledger")
