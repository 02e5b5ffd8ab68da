"""Opens text that tenants wrote: UTF-8 (or UTF-16 with its mark), and nothing guessed."""

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


def open_text(path: Path, where: str) -> IO[str]:
    """The file as text, newlines untouched. Raises `TenantError` naming the line that is not UTF-8."""
    with path.open("rb") as stream:
        start = stream.read(4)
        stream.seek(0)
        utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if utf16 else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        line, width = 1, 0
        while chunk := stream.read(_CHUNK):
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError as error:
                line += bytes(error.object[: error.start]).count(b"\n")
                byte = bytes(error.object[error.start : error.start + 1])
                said = f"byte 0x{byte.hex()}{_in_windows(byte)}"
                message = f"is not {encoding.upper().removesuffix('-SIG')} text ({said})"
                raise TenantError([Problem(where, message, line=line, fix=_SAVE)]) from None
            if "\0" in text:
                if line == 1 and (half := _utf16(text[:_SAMPLE])):
                    message = f"looks like UTF-16-{half} without its mark"
                    raise TenantError([Problem(where, message, line=1, fix=_SAVE)])
                raise TenantError([Problem(where, "is binary, not text", line=line + text.count("\n"))])
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


def _utf16(text: str) -> str:
    """ "LE" or "BE" where every other character of plain text is NUL, else nothing."""
    halves = {"LE": text[1::2], "BE": text[::2]}
    other = {"LE": text[::2], "BE": text[1::2]}
    return next(
        (name for name, half in halves.items() if set(half) == {"\0"} and "\0" not in other[name]), ""
    )


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
