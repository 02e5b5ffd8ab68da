"""Decisions keep what they saw."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "decisions",
        sa.Column("seen", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
    )
