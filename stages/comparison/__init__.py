"""The keywords of several methods beside each other: who names what, how far they agree, which parts of speech."""
