"""Uploads rest after a failure, and keep what their tenants are told of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("uploads", sa.Column("tried_fingerprint", sa.String(), nullable=True))
    op.add_column("uploads", sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("uploads", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "uploads",
        sa.Column("problems", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
    )
