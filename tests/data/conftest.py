"""Builds data versions from small uploads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from easeml_core.data import Limits, Version, build_version, open_version
from easeml_core.errors import TenantError
from easeml_core.naming import version_dir
from easeml_core.spec import Spec, load_spec
from tests.data.uploads import NAME


class Build(Protocol):
    def __call__(self, spec: str | Spec, *, parent: Version | None = ..., **limits: Any) -> Version: ...


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    """A tenant's folder, empty."""
    folder = tmp_path / "upload"
    (folder / "data").mkdir(parents=True)
    return folder


@pytest.fixture
def put(upload: Path) -> Callable[[str, bytes | str], Path]:
    """Write a file below the tenant's folder."""

    def write(name: str, content: bytes | str) -> Path:
        path = upload / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def build(upload: Path, tmp_path: Path) -> Build:
    """Build and open the data version of `upload`."""

    def run(spec: str | Spec, *, parent: Version | None = None, **limits: Any) -> Version:
        versions = tmp_path / "versions"
        try:
            facts = build_version(
                upload,
                load_spec(spec) if isinstance(spec, str) else spec,
                parent=parent,
                limits=Limits(**limits),
                versions_dir=versions,
                name=NAME,
            )
        finally:
            assert not any((versions / ".staging").iterdir())  # nothing is left behind, whatever happens
        version = open_version(version_dir(versions, NAME, facts.digest))
        assert version.facts == facts
        return version

    return run


@pytest.fixture
def refused(build: Build) -> Callable[..., str]:
    """The problems of an upload that must be refused, as text."""

    def run(spec: str | Spec, **options: Any) -> str:
        with pytest.raises(TenantError) as caught:
            build(spec, **options)
        return str(caught.value)

    return run
