"""Which texts belong together, which split they fall to, and what training sees of the evaluated ones."""
