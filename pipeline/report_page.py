"""The report page for whoever wants to see it: where it is, and a browser on it."""

import webbrowser

from rich.console import Console

from keycontrast.errors import InputError
from stages.common.paths import REPORT_PAGE


def show_page(console: Console, opened: bool) -> None:
    """Say where the page is; with ``opened``, open it in the browser that the system or ``BROWSER`` names.

    Raises:
        InputError: there is no page, or nothing to open it with.
    """
    if not REPORT_PAGE.exists():
        raise InputError(f"{REPORT_PAGE}: there is no page yet. Make it with `keycontrast run`.")
    console.print(f"Report: {REPORT_PAGE}", highlight=False, soft_wrap=True)
    if opened and not webbrowser.open(REPORT_PAGE.resolve().as_uri()):
        raise InputError(f"no browser could be opened. Open {REPORT_PAGE} in one, or name one in BROWSER.")
