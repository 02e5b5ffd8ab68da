"""Reads images of every usual kind into arrays of one size, decoded in full.

Raw units (see `units`): uint8 0..255 where all images have 8 bits per channel, else float32 of which white
is known or, for 32-bit TIFFs among themselves, not. EXIF orientation is applied, transparency laid over
white, sizes and channels are made those of the program; each of these is counted in `Findings.converted`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from easeml_core.data.deep import FORMATS, Broken, depth, read_deep, with_channels
from easeml_core.data.findings import Findings
from easeml_core.data.units import Units

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
_ORIENTATION = 0x0112
# Modes of c channels that hold 8 bits each.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_image(
    path: Path, shape: tuple[int, ...], units: Units, max_pixels: int, findings: Findings
) -> npt.NDArray[Any]:
    """Decode one image to (H, W, C) in `units`. Raises `Broken` with the reason."""
    if path.stat().st_size == 0:
        raise Broken("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise Broken(f"{image.width} × {image.height} pixels are more than {max_pixels:,}")
                if getattr(image, "n_frames", 1) > 1:
                    findings.count("first frame only")
                array = _convert(path, image, shape, units, findings)
                findings.sizes[f"{image.height} × {image.width}"] += 1
                return array
    except Broken:
        raise
    except Image.DecompressionBombError:
        raise Broken(f"it has more than {max_pixels:,} pixels") from None
    except UnidentifiedImageError:
        raise Broken(f"it is no image that can be read ({', '.join(FORMATS)})") from None
    except MemoryError:
        raise Broken("it does not fit into memory") from None
    except Exception as error:  # decoders raise many classes on broken input
        raise Broken(f"it cannot be decoded: {error or type(error).__name__}") from None


def _convert(
    path: Path, image: Image.Image, shape: tuple[int, ...], units: Units, findings: Findings
) -> npt.NDArray[Any]:
    height, width, channels = shape
    if channels not in _MODES:
        raise Broken(f"images have 1, 3 or 4 channels; the program wants {channels}: use npz")
    of_depth = depth(image)
    if units.white is None and of_depth != "raw":
        raise Broken(
            "nobody can tell what its white is among the numbers of the task's data: use 32-bit TIFF or npz"
        )
    values = read_deep(path, image) if of_depth != "byte" else None
    image.load()
    if image.getexif().get(_ORIENTATION, 1) != 1:
        findings.count("orientation applied")
    if values is not None:
        return _fit_deep(values, of_depth == "raw", shape, units, findings)
    plain = _to_mode(ImageOps.exif_transpose(image), _MODES[channels], findings)
    if plain.size != (width, height):
        findings.count(f"resized to {height}x{width}")
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return units.of_bytes(np.asarray(plain, dtype=np.uint8).reshape(height, width, channels))


def _to_mode(image: Image.Image, mode: str, findings: Findings) -> Image.Image:
    transparent = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    flatten = transparent and mode != "RGBA"
    if image.mode == mode and not flatten:
        return image
    findings.count(f"{image.mode} to {mode}" if image.mode != mode else "transparency laid over white")
    if flatten:
        solid = image.convert("RGBA")
        paper = Image.new("RGBA", solid.size, "white")
        image = Image.alpha_composite(paper, solid)
    return image.convert(mode)


def _fit_deep(
    values: npt.NDArray[np.float32], raw: bool, shape: tuple[int, ...], units: Units, findings: Findings
) -> npt.NDArray[Any]:
    """`values` (h, w, c) made of the program's size and channels; in `units`, unless they are `raw`."""
    height, width, channels = shape
    if not np.isfinite(values).all():
        raise Broken("it has pixels that are not finite")
    if values.shape[:2] != (height, width):
        findings.count(f"resized to {height}x{width}")
        planes = map(np.ascontiguousarray, np.moveaxis(values, 2, 0))
        values = np.stack([resize_plane(plane, height, width) for plane in planes], axis=-1)
    if channels != values.shape[2]:
        names = {1: "grey", 3: "RGB", 4: "RGBA"}
        findings.count(f"{names[values.shape[2]]} to {names[channels]}")
        values = with_channels(values, channels)
    if raw:
        return values
    findings.count("16 bits to 8" if units.dtype == "uint8" else f"16 bits to 0..{units.white:g}")
    return units.of_share(values)


def resize_plane(plane: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float32]:
    """Resize one channel (h, w) of floats, averaging where it shrinks."""
    resized = Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR)
    array: npt.NDArray[np.float32] = np.asarray(resized, dtype=np.float32)
    return array
