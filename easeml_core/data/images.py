"""Reads images of every usual kind into arrays of one size, decoded in full.

Raw units: uint8 0..255 where all images have 8 bits per channel, else float32 in [0, 1]. EXIF orientation
is applied, transparency laid over white, sizes and channels are made those of the program; each of these
is counted in `Findings.converted`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from easeml_core.data.findings import Findings

ENDS = frozenset(
    {
        ".png",
        ".jpg",
        ".jpeg",
        ".jpe",
        ".gif",
        ".bmp",
        ".tif",
        ".tiff",
        ".webp",
        ".ppm",
        ".pgm",
        ".pbm",
        ".pnm",
    }
)
# Only decoders for images: none that starts a program (EPS) or reads other files.
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
_ORIENTATION = 0x0112
_DEEP = {"I;16": 65535.0, "I;16B": 65535.0, "I;16L": 65535.0, "I;16N": 65535.0, "I": 65535.0, "F": 1.0}
# Modes of c channels that hold 8 bits each.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class Broken(Exception):  # noqa: N818 - a finding about an example, not a fault
    """Why an example cannot be used, in words for its tenant."""


def any_deep(paths: Iterable[Path]) -> bool:
    """Whether any image has more than 8 bits per channel; reads headers only."""
    return any(_mode(path) in _DEEP for path in paths)


def _mode(path: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_FORMATS) as image:
                return str(image.mode)
    except Exception:
        return ""  # it is reported when it is decoded


def read_image(
    path: Path,
    shape: tuple[int, ...],
    dtype: str,
    max_pixels: int,
    findings: Findings,
    *,
    top: float = 1.0,
) -> npt.NDArray[Any]:
    """Decode one image to (H, W, C) of `dtype` "uint8" or "float32". Raises `Broken` with the reason.

    `top` is what white becomes in float32.
    """
    if path.stat().st_size == 0:
        raise Broken("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise Broken(f"{image.width} × {image.height} pixels are more than {max_pixels:,}")
                if getattr(image, "n_frames", 1) > 1:
                    findings.count("first frame only")
                image.load()
                array = _convert(image, shape, dtype, findings)
                return array if dtype == "uint8" else array * np.float32(top)
    except Broken:
        raise
    except Image.DecompressionBombError:
        raise Broken(f"it has more than {max_pixels:,} pixels") from None
    except UnidentifiedImageError:
        raise Broken(f"it is no image that can be read ({', '.join(_FORMATS)})") from None
    except MemoryError:
        raise Broken("it does not fit into memory") from None
    except Exception as error:  # decoders raise many classes on broken input
        raise Broken(f"it cannot be decoded: {error or type(error).__name__}") from None


def _convert(image: Image.Image, shape: tuple[int, ...], dtype: str, findings: Findings) -> npt.NDArray[Any]:
    height, width, channels = shape
    if channels not in _MODES:
        raise Broken(f"images have 1, 3 or 4 channels; the program wants {channels}: use npz")
    turned = ImageOps.exif_transpose(image)
    if image.getexif().get(_ORIENTATION, 1) != 1:
        findings.count("orientation applied")
    deep = _DEEP.get(turned.mode)
    if deep is not None:
        return _convert_deep(turned, shape, dtype, deep, findings)
    plain = _to_mode(turned, _MODES[channels], findings)
    if plain.size != (width, height):
        findings.count(f"resized to {height}x{width}")
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    array = np.asarray(plain, dtype=np.uint8).reshape(height, width, channels)
    if dtype == "uint8":
        return array
    return np.asarray(array.astype(np.float32) / np.float32(255))


def _to_mode(image: Image.Image, mode: str, findings: Findings) -> Image.Image:
    if image.mode == mode:
        return image
    findings.count(f"{image.mode} to {mode}")
    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    if transparent and mode != "RGBA":
        solid = image.convert("RGBA")
        paper = Image.new("RGBA", solid.size, "white")
        image = Image.alpha_composite(paper, solid)
    return image.convert(mode)


def _convert_deep(
    image: Image.Image, shape: tuple[int, ...], dtype: str, top: float, findings: Findings
) -> npt.NDArray[Any]:
    # PIL's own conversion would clip 16 bits to 255 (99.6 % of a ramp turns white).
    height, width, channels = shape
    values = np.asarray(image).astype(np.float32) / np.float32(top)
    if not np.isfinite(values).all():
        raise Broken("it has pixels that are not finite")
    if (values.shape[0], values.shape[1]) != (height, width):
        findings.count(f"resized to {height}x{width}")
        values = resize_plane(values, height, width)
    if channels > 1:
        findings.count(f"grey to {_MODES[channels]}")
    planes = [values] * min(channels, 3) + [np.ones_like(values)] * (channels == 4)
    array: npt.NDArray[Any] = np.stack(planes, axis=-1)
    if dtype == "uint8":
        findings.count("16 bits to 8")
        array = np.clip(np.rint(array * 255), 0, 255).astype(np.uint8)
    return array


def resize_plane(plane: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float32]:
    """Resize one channel (h, w) of floats, averaging where it shrinks."""
    resized = Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR)
    array: npt.NDArray[np.float32] = np.asarray(resized, dtype=np.float32)
    return array
