"""The example tasks, in the order in which the demonstration submits them."""

from __future__ import annotations

from examples.clinic import diabetes, tumours
from examples.layout import Example
from examples.sensors import gunpoint
from examples.vision import digits, mnist

EXAMPLES: tuple[Example, ...] = (
    tumours.EXAMPLE,
    diabetes.EXAMPLE,
    digits.EXAMPLE,
    gunpoint.EXAMPLE,
    mnist.EXAMPLE,
)
