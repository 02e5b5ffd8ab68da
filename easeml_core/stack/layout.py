"""Where the stack keeps its files: every path of `easeml_core.stack` is built here."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from easeml_core.errors import OperatorError

# Set for every process of a stack, and nowhere else: the home it belongs to.
STACK_VARIABLE = "EASEML_STACK"
# sun_path holds 108 bytes with its final zero (unix(7)).
SOCKET_PATH_BYTES = 107
# supervisord binds `<socket>.<pid>` first and links it to its final name.
_SUPERVISOR_SUFFIX_BYTES = 9


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of the stack whose home is `home` (absolute, symbolic links resolved)."""

    home: Path

    @classmethod
    def of(cls, home: Path) -> Layout:
        """Layout of a home; raises OperatorError for a path that supervisord's configuration can't hold."""
        home = home.expanduser().resolve()
        if any(mark in str(home) for mark in ("\n", "\r", " ;", " #", "%")):
            raise OperatorError(
                f"the home folder's path may hold no '%', ' ;', ' #' or line break: {str(home)!r}"
            )
        return cls(home)

    @property
    def run(self) -> Path:
        """Private folder of what the running stack needs; the programs' working directory."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """One log per program."""
        return self.home / "logs"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def artifacts(self) -> Path:
        """MLflow's artifact store."""
        return self.home / "mlflow"

    @property
    def secrets(self) -> Path:
        """Passwords and keys, made once."""
        return self.home / "secrets.json"

    @property
    def ports(self) -> Path:
        """Ports that were picked, kept from then on."""
        return self.home / "ports.json"

    @property
    def schemas(self) -> Path:
        """Which schema versions the installed Airflow is known to have migrated to."""
        return self.home / "schemas.json"

    @property
    def postgres(self) -> Path:
        """The embedded server's files, or a symbolic link to them (`postgres.place`)."""
        return self.home / "postgres"

    @property
    def stack(self) -> Path:
        """What the running stack says of itself; read by `Settings.resolved_*`."""
        return self.run / "stack.json"

    @property
    def lock(self) -> Path:
        """Held while `up` or `down` works."""
        return self.run / "stack.lock"

    @property
    def conf(self) -> Path:
        """supervisord's configuration."""
        return self.run / "supervisord.conf"

    @property
    def preload(self) -> Path:
        """The environment in which supervisord imports what its programs share."""
        return self.run / "preload.json"

    @property
    def pid(self) -> Path:
        """supervisord's process id."""
        return self.run / "supervisord.pid"

    @property
    def sessions(self) -> Path:
        """Session ids of the supervisors this home has had (`processes.py`)."""
        return self.run / "sessions.json"

    @property
    def standby_socket(self) -> Path:
        """Where the warm trainer listens (`training.standby`)."""
        return self.run / "standby.sock"

    @property
    def supervisor_socket(self) -> Path:
        """supervisord's control socket; outside the home where the home's path is too long for one."""
        path = self.run / "supervisor.sock"
        if fits_socket(path, _SUPERVISOR_SUFFIX_BYTES):
            return path
        return short_folder(self.home, "run") / path.name

    def program(self, name: str) -> Path:
        """What `launch` needs to start one program: arguments, environment, user."""
        return self.run / "programs" / f"{name}.json"

    def started(self, name: str) -> Path:
        """Process ids under which one program was started, newest last."""
        return self.run / "programs" / f"{name}.pids"

    def log(self, name: str) -> Path:
        """Log of one program (standard output and error)."""
        return self.logs / f"{name}.log"

    def create(self) -> None:
        """Make the folders; those that hold secrets or sockets are closed to other users."""
        self.home.mkdir(parents=True, exist_ok=True)
        for folder in (self.run, self.run / "programs", self.logs, self.airflow, self.artifacts):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.run.chmod(0o700)


def fits_socket(path: Path, suffix: int = 0) -> bool:
    """Whether a Unix socket may have this path, with `suffix` more bytes behind it."""
    return len(os.fsencode(path)) + suffix <= SOCKET_PATH_BYTES


def short_folder(home: Path, kind: str, owner: int | None = None) -> Path:
    """A private folder with a short path that belongs to `home`, for sockets; made when absent.

    `owner` is the user id that owns it (default: ours). Raises OperatorError when another user got
    there first: a socket in a folder of theirs could be swapped.
    """
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > 40:
        base = Path("/tmp")
    mine = os.geteuid()
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    folder = base / f"easeml-{mine}-{digest}-{kind}"
    try:
        folder.mkdir(mode=0o700)
        if owner is not None and owner != mine:
            os.chown(folder, owner, -1)
    except FileExistsError:
        pass
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != (mine if owner is None else owner)
        or found.st_mode & 0o077
    ):
        raise OperatorError(f"{folder} is not a private folder of ours: remove it and try again")
    return folder
