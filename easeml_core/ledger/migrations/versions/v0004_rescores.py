"""What champions reach on data versions other than their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rescores",
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("data_version_id", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("quality", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(quality IS NULL) = (score IS NULL)", name=op.f("ck_rescores_quality_iff_score")),
        sa.CheckConstraint(
            "made_at IS NOT NULL OR quality IS NULL", name=op.f("ck_rescores_quality_is_verdict")
        ),
        sa.CheckConstraint("quality >= 0 AND quality <= 1", name=op.f("ck_rescores_quality_range")),
        sa.CheckConstraint(
            "score > '-Infinity' AND score < 'Infinity'", name=op.f("ck_rescores_score_finite")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_rescores_trial_id"),
        sa.ForeignKeyConstraint(
            ["data_version_id"], ["data_versions.id"], name="fk_rescores_data_version_id"
        ),
        sa.PrimaryKeyConstraint("trial_id", "data_version_id", name="pk_rescores"),
    )
