"""Runs the Python code of a page of docs/, against a server on another port than the page's."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

from .support import ROOT


def blocks(page: str, language: str) -> list[str]:
    """Returns the code blocks of a page in a language."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_page(page: str, url: str, folder: Path, only: slice = slice(None)) -> dict[str, Any]:
    """Runs the Python blocks of a page as one program in a folder. Returns its names.

    If a line that prints ends in a comment, it must print that.
    """
    code = "\n".join(blocks(page, "python")[only]).replace("http://127.0.0.1:8080", url)
    if not code:
        raise ValueError(f"{page} has no Python code")
    lines = [line for line in code.split("\n") if "print(" in line]
    wanted = [line.partition("  # ")[2] for line in lines if "  # " in line]
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    before = os.getcwd()
    try:
        os.chdir(folder)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
    finally:
        os.chdir(before)
    missing = [line for line in wanted if line not in printed.getvalue().split("\n")]
    if missing:
        raise AssertionError(f"{page} does not print {missing}, but:\n{printed.getvalue()}")
    return names
