"""Passwords and keys of the stack: made once per home, kept in `<home>/secrets.json` (mode 0600)."""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from easeml_core.stack.files import read_json, write_private

AIRFLOW_USER = "admin"


@dataclass(frozen=True, slots=True)
class Keys:
    """Every secret of one home. `repr` shows none of them."""

    airflow_password: str = field(repr=False)
    database_password: str = field(repr=False)
    fernet_key: str = field(repr=False)
    jwt_secret: str = field(repr=False)
    session_key: str = field(repr=False)


def load_keys(path: Path) -> Keys:
    """The home's secrets; makes and keeps those that are missing."""
    known = read_json(path, {})
    fresh = Keys(
        airflow_password=secrets.token_urlsafe(15),
        database_password=secrets.token_urlsafe(24),
        # What cryptography's Fernet.generate_key gives, without importing it.
        fernet_key=base64.urlsafe_b64encode(os.urandom(32)).decode(),
        # HS512 wants at least 64 bytes.
        jwt_secret=secrets.token_urlsafe(64),
        session_key=secrets.token_urlsafe(32),
    )
    values = {name: known.get(name, value) for name, value in asdict(fresh).items()}
    if values != known:
        write_private(path, values)
    return Keys(**values)
