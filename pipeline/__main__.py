"""``python -m pipeline ...`` is the same as ``keycontrast ...``."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
