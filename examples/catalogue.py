"""The example tasks, in the order in which they are submitted: at least one per row of the template table."""

from __future__ import annotations

from examples.archive import fragments, functions, scans
from examples.clinic import diabetes, pressure, tumours
from examples.layout import Example
from examples.sensors import gunpoint, gyroscope
from examples.vision import digits, mnist, photos

DEMONSTRATED: tuple[Example, ...] = (
    tumours.EXAMPLE,
    diabetes.EXAMPLE,
    digits.EXAMPLE,
    gunpoint.EXAMPLE,
    mnist.EXAMPLE,
)
EXAMPLES: tuple[Example, ...] = (
    *DEMONSTRATED,
    photos.EXAMPLE,
    gyroscope.EXAMPLE,
    pressure.EXAMPLE,
    functions.EXAMPLE,
    fragments.EXAMPLE,
    scans.EXAMPLE,
)
