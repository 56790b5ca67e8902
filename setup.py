"""What pyproject.toml cannot say: a wheel carries files that stand beside the packages in a clone."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# Of `keycontrast/_shipped` in the wheel; stages/common/shipped.py finds them there.
SHIPPED = ("data/language/README.md", "data/language/en_ewt", "dvc.yaml")


class WithShippedFiles(build_py):
    """Copies them, but into an editable installation, which reads the clone."""

    def run(self) -> None:
        """Build, then copy."""
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            source, target = ROOT / name, Path(self.build_lib) / "keycontrast" / "_shipped" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)


# An editable installation is a line on `sys.path`, which type checkers read; they cannot read an import hook.
setup(cmdclass={"build_py": WithShippedFiles}, options={"editable_wheel": {"mode": "compat"}})
