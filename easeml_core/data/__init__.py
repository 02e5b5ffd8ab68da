"""From a tenant's files to an immutable data version, and from files under `infer/` to inputs.

Heavy imports (Pillow, pyarrow) happen inside functions: opening a version needs numpy only.
"""

from easeml_core.data.build import build_version
from easeml_core.data.inputs import Inputs, read_inputs
from easeml_core.data.limits import Limits
from easeml_core.data.version import Version, VersionFacts, open_version

__all__ = ["Inputs", "Limits", "Version", "VersionFacts", "build_version", "open_version", "read_inputs"]
