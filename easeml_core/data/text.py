"""Opens text that tenants wrote: UTF-8 (or UTF-16 and UTF-32 with their marks), and nothing guessed."""

from __future__ import annotations

import codecs
import unicodedata
from pathlib import Path
from typing import IO

from easeml_core.errors import Problem, TenantError

_CHUNK = 1 << 20
# One line longer than this is no table.
LINE_LIMIT = 16 << 20
_SAMPLE = 1000
_SAVE = "save it in the encoding UTF-8"
_MARKS = (  # that of UTF-32 begins as that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PACKED = ((b"PK\x03\x04", "an Excel file or a zip archive"), (b"\x1f\x8b", "compressed by gzip"))


def open_text(path: Path, where: str) -> IO[str]:
    """The file as text, newlines untouched. Raises `TenantError` naming the line that is not UTF-8."""
    with path.open("rb") as stream:
        start = stream.read(_SAMPLE)
        stream.seek(0)
        if packed := next((what for magic, what in _PACKED if start.startswith(magic)), None):
            fix = "save it as plain text, in the encoding UTF-8"
            raise TenantError([Problem(where, f"is {packed}, not text", fix=fix)])
        encoding = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8-sig")
        if encoding == "utf-8-sig" and (half := _utf16(start)):
            message = f"looks like UTF-16-{half} without its mark"
            raise TenantError([Problem(where, message, line=1, fix=_SAVE)])
        decoder = codecs.getincrementaldecoder(encoding)()
        line, width = 1, 0
        more = True
        while more:
            more = bool(chunk := stream.read(_CHUNK))
            try:
                text = decoder.decode(chunk, final=not more)  # at the end, half of a character is wrong too
            except UnicodeDecodeError as error:
                line += bytes(error.object[: error.start]).count(b"\n")
                byte = bytes(error.object[error.start : error.start + 1])
                said = f"byte 0x{byte.hex()}{_in_windows(byte)}"
                message = f"is not {encoding.upper().removesuffix('-SIG')} text ({said})"
                raise TenantError([Problem(where, message, line=line, fix=_SAVE)]) from None
            if "\0" in text:
                line += text.count("\n", 0, text.index("\0"))
                raise TenantError([Problem(where, "is binary, not text", line=line)])
            line += text.count("\n")
            width = width + len(text) if "\n" not in text else len(text) - text.rindex("\n")
            if width > LINE_LIMIT:
                raise TenantError([Problem(where, "has a line that is too long", line=line)])
    return open(path, encoding=encoding, newline="")


def _in_windows(byte: bytes) -> str:
    """What the byte is in the encoding that Excel and old Windows programs write in Western Europe."""
    try:
        letter = byte.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    return f", which is {letter} in Windows-1252" if letter.isprintable() else ""


def _utf16(start: bytes) -> str:
    """ "LE" or "BE" where every other byte is mostly NUL and the others never are, else nothing."""
    even, odd = start[::2], start[1::2]
    for name, high, low in (("LE", odd, even), ("BE", even, odd)):
        if high.count(0) * 2 > len(high) and 0 not in low:
            return name
    return ""


def plain(text: str) -> str:
    """A label as it is compared: trimmed, in Unicode NFC (é is é however it was typed)."""
    return unicodedata.normalize("NFC", text.strip())


def number(text: str) -> float | None:
    """The number that `text` writes, or None. Unlike `float`, it takes no underscores.

    >>> number(" 1e-3 "), number("1_0"), number("")
    (0.001, None, None)
    """
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
