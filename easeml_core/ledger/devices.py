"""Which devices are free: the configured ones without a live lease, counted, never kept as a number."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Lease


def lease_of(session: Session, device: str) -> Lease | None:
    """The lease on a device that has not expired, or None when the device is free."""
    return session.scalars(
        select(Lease).where(Lease.device == device, Lease.expires_at > func.clock_timestamp())
    ).one_or_none()


def free_devices(session: Session, devices: Sequence[str]) -> tuple[str, ...]:
    """Those of the configured devices that no live lease names, in their order."""
    taken = set(session.scalars(select(Lease.device).where(Lease.expires_at > func.clock_timestamp())))
    return tuple(device for device in devices if device not in taken)


def next_expiry(session: Session) -> float | None:
    """Seconds until the first live lease expires, or None without leases."""
    seconds = session.scalar(
        select(func.extract("epoch", func.min(Lease.expires_at) - func.clock_timestamp()))
    )
    return None if seconds is None else float(seconds)
