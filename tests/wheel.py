"""The project as those have it who installed its wheel: unpacked into a folder, away from the clone."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def wheel_site(folder: Path) -> Path:
    """Build the wheel from a copy of what git has and is to have, and return the folder that it is unpacked into."""
    clone = folder / "clone"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split("\n")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "metrics/", "data/start/", "docs/")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", folder / "site",
                    clone], check=True, capture_output=True)
    shutil.rmtree(clone)
    return folder / "site"
