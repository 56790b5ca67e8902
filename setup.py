"""What pyproject.toml cannot say: a wheel carries the English pipeline, which stands beside the package in a clone."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
LANGUAGE = ROOT / "data" / "language"


class WithPipeline(build_py):
    """Copies it, but into an editable installation, which reads the clone."""

    def run(self) -> None:
        """Build, then copy."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "keycontrast" / "en_ewt"
            shutil.copytree(LANGUAGE / "en_ewt", target, dirs_exist_ok=True)
            shutil.copy2(LANGUAGE / "README.md", target / "CARD.md")


# An editable installation is a line on `sys.path`, which type checkers read; they cannot read an import hook. It brings
# the folders of the clone, too: pipeline, stages and models.
setup(cmdclass={"build_py": WithPipeline}, options={"editable_wheel": {"mode": "compat"}})
