"""Whether a model that was trained on one data version can be judged by the validation split of another.

What is compared is content, as `split` does. It does not see an example that comes again slightly changed:
`near_duplicates` warns of those.
"""

from __future__ import annotations

from easeml_core.data.forms import Form
from easeml_core.data.intact import splits_of
from easeml_core.data.split import TRAIN, VAL
from easeml_core.data.version import Version
from easeml_core.errors import OperatorError


def obstacle(before: Version, now: Version) -> str | None:
    """Why a model trained on `before` cannot be judged on `now`, in words; None where it can.

    Examples keep their side of the split from one version to the next, but not where that version is
    damaged, nor where they had been taken out of it: then the model may have been trained on them, and
    would look better than it is. Raises OperatorError where the manifest of `now` cannot be read.
    """
    old, new = before.facts, now.facts
    if Form.of_facts(old).identity != Form.of_facts(new).identity:
        return "its data had another shape"
    if (old.dtype, old.white) != (new.dtype, new.white):
        return "its data came in other units"
    for columns in ("columns", "targets"):
        had, has = old.converted.get(columns), new.converted.get(columns)
        if had is not None and has is not None and had != has:
            return f"its data had other columns: {', '.join(had)}"
    trained, asked = splits_of(before), splits_of(now)
    if asked is None:
        raise OperatorError(f"the manifest of the data version in {now.folder} cannot be read")
    if trained is None:
        return "its data version is damaged, so that nobody knows what it was trained on"
    validated = {content for content, part in asked.items() if part == VAL}
    seen = sum(trained.get(content) == TRAIN for content in validated)
    return f"it was trained on {seen} of the {len(validated)} examples to validate on now" if seen else None
