"""Files of tables, which are one file or a folder of parts."""


def bytes_of(path):
    """Return what lies in a file, or in the files of a folder."""
    return b"".join(file.read_bytes() for file in sorted(path.iterdir())) if path.is_dir() else path.read_bytes()
