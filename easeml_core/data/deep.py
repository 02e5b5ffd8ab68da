"""Images of more than 8 bits per channel, which Pillow's own conversions would clip or cut.

Grey ones come out of Pillow in full (modes `I;16`, `I`, `F`). Of colour it keeps the high byte of each
number only; its decoder for the other byte order keeps the low one, so that two decodings give both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

# Only decoders for images: none that starts a program (EPS) or reads other files.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
_TOP = np.float32(65535)
_PNG = b"\x89PNG\r\n\x1a\n"
_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as Pillow's mode L

# "byte": at most 8 bits per channel; "deep": 16 bits, of which 65535 is white; "raw": 32-bit TIFFs of whole
# numbers or floats, of which nobody can tell what white is.
Depth = Literal["byte", "deep", "raw"]


class Broken(Exception):  # noqa: N818 - a finding about an example, not a fault
    """Why an example cannot be used, in words for its tenant."""


def depths(paths: Iterable[Path]) -> set[Depth]:
    """Which depths there are among images; reads headers only, files that are no images are left out."""
    found: set[Depth] = set()
    for path in paths:
        if _is_plain_png(path):
            found.add("byte")
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Image.open(path, formats=FORMATS) as image:
                    found.add(depth(image))
        except Exception:  # decoders raise many classes on broken input; it is named when it is decoded
            continue
    return found


def _is_plain_png(path: Path) -> bool:
    """Whether the header of a PNG tells of 8 bits or fewer: ten times as fast as Pillow, for many files."""
    with path.open("rb") as stream:
        head = stream.read(25)
    return len(head) == 25 and head[:8] == _PNG and head[12:16] == b"IHDR" and head[24] <= 8


def depth(image: Image.Image) -> Depth:
    """The depth of an image that was opened and not yet loaded."""
    if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):
        return "raw"
    is_deep = image.mode == "I" or image.mode.startswith("I;16") or ";16" in _raw_mode(image)
    return "deep" if is_deep or _is_deep_ppm(image) else "byte"


def read_deep(path: Path, image: Image.Image) -> npt.NDArray[np.float32]:
    """The pixels (h, w, c) of a "deep" image scaled to [0, 1], of a "raw" one as they are; c is 1, 3 or 4.

    EXIF orientation is applied. Raises `Broken`, and what Pillow raises on broken files.
    """
    if depth(image) == "raw":
        return _upright(image)[:, :, None].astype(np.float32)
    if _is_deep_ppm(image):
        return _read_ppm(path, image)
    if ";16" not in (mode := _raw_mode(image)) or image.mode.startswith("I"):
        return np.asarray(_upright(image)[:, :, None].astype(np.float32) / _TOP, dtype=np.float32)
    if mode == "LA;16B":
        # As if of 8 bits in four channels: the two bytes of grey and the two of transparency.
        _decode_as(image, "RGBA")
        pairs = _upright(image).astype(np.float32)
        grey, alpha = pairs[:, :, 0] * 256 + pairs[:, :, 1], pairs[:, :, 2] * 256 + pairs[:, :, 3]
        return (np.stack([grey, grey, grey, alpha], axis=-1) / _TOP).astype(np.float32)
    low_first = not mode.endswith("B")
    with Image.open(path, formats=FORMATS) as other:
        _decode_as(other, mode[: mode.index(";")] + (";16B" if low_first else ";16L"))
        low = _upright(other).astype(np.float32)
    return (_upright(image).astype(np.float32) * 256 + low) / _TOP


def with_channels(values: npt.NDArray[np.float32], channels: int) -> npt.NDArray[np.float32]:
    """(h, w, c) in [0, 1] with 1, 3 or 4 channels: transparency laid over white, colour to luminance."""
    have = values.shape[2]
    if have == channels:
        return values
    if have == 4:
        alpha = values[:, :, 3:]
        values = values[:, :, :3] * alpha + (1 - alpha)
    if channels == 1:
        return cast(Any, values[:, :, :3] @ _LUMINANCE)[:, :, None] if have > 1 else values
    if have == 1:
        values = np.repeat(values, 3, axis=2)
    return values if channels == 3 else np.concatenate([values, np.ones_like(values[:, :, :1])], axis=2)


def _raw_mode(image: Image.Image) -> str:
    """How the file holds its pixels, such as `RGB;16B`; empty where the decoder has no such word."""
    tiles: list[Any] = getattr(image, "tile", None) or []
    args = tiles[0].args if tiles else ""
    first = args[0] if isinstance(args, tuple) and args else args
    return first if isinstance(first, str) else ""


def _is_deep_ppm(image: Image.Image) -> bool:
    tiles: list[Any] = getattr(image, "tile", None) or []
    if image.format != "PPM" or not tiles or not tiles[0].codec_name.startswith("ppm"):
        return False
    return isinstance(tiles[0].args, tuple) and int(tiles[0].args[-1]) > 255


def _read_ppm(path: Path, image: Image.Image) -> npt.NDArray[np.float32]:
    """Numbers of two bytes, which Pillow scales one by one, those of colour to 8 bits."""
    ((codec, _, offset, args),) = cast(Any, image).tile
    height, width, channels = image.height, image.width, 3 if image.mode == "RGB" else 1
    count = height * width * channels
    if codec == "ppm_plain":
        raise Broken("a PPM of more than 8 bits, written as text, cannot be read: save it as PNG or TIFF")
    numbers = np.fromfile(path, dtype=">u2", count=count, offset=offset)
    if len(numbers) < count:
        raise Broken(
            f"it cannot be decoded: image file is truncated ({count - len(numbers)} numbers missing)"
        )
    share = np.minimum(numbers.astype(np.float32) / np.float32(args[-1]), np.float32(1))
    return np.asarray(share.reshape(height, width, channels), dtype=np.float32)


def _decode_as(image: Image.Image, raw_mode: str) -> None:
    """Let `image` be decoded as if its file held pixels of `raw_mode`."""
    opened = cast(Any, image)
    opened.tile = [
        tile._replace(args=(raw_mode, *tile.args[1:]) if isinstance(tile.args, tuple) else raw_mode)
        for tile in opened.tile
    ]


def _upright(image: Image.Image) -> npt.NDArray[Any]:
    image.load()
    return np.asarray(ImageOps.exif_transpose(image))
