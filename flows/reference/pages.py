"""Which page is written by what."""

from pathlib import Path

from flows.reference.cli import cli_page
from flows.reference.config import config_page
from flows.reference.doctor import doctor_table
from flows.reference.environment import environment_page
from flows.reference.exit_codes import exit_codes_page
from flows.reference.markdown import between
from flows.reference.metrics import metrics_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    """Each page's text by its path below docs/. Of docs/troubleshooting.md only the doctor's table is written anew:
    the rest of what stands there stays."""
    troubleshooting = "troubleshooting.md"
    return {
        "reference/config.md": config_page(),
        "reference/cli.md": cli_page(),
        "reference/metrics.md": metrics_page(),
        "reference/environment.md": environment_page(),
        "reference/exit-codes.md": exit_codes_page(),
        troubleshooting: between((DOCS / troubleshooting).read_text("utf-8"), name="doctor", text=doctor_table()),
    }
