"""``python -m pipeline ...`` is the same as ``keycontrast ...``."""

from keycontrast.cli import main

if __name__ == "__main__":
    main()
