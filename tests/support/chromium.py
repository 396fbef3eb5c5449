"""Debian's chromium for tests, driven by playwright, which is never asked to download one of its own."""

import shutil
import time
from contextlib import contextmanager

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def running_chromium():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts nothing unless it is needed

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH: the browser tests are skipped (apt-get install chromium)")
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield running
        running.close()


def until(page, expression, argument=None, seconds=60):
    """Until it is true; playwright's own way of waiting is not allowed by the page's policy."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"never true: {expression}"
        time.sleep(0.02)
