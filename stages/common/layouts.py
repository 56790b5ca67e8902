"""What a row of a data set is under each layout, however its files are laid out; readers are in ``stages/ingest``."""

STRUCTURES = {
    "pairs": ("pairs", "glue_qqp", "kaggle_qqp", "quora_qqp", "nli"),
    "triples": ("triples",),
    "captions": ("captions", "mscoco_captions"),
    "stories": ("stories", "rocstories", "story_cloze", "story_infilling"),
    "dialogue": ("dialogue", "douban_dialogue", "groupwise_dialogue"),
    "labelled": ("labelled", "trec", "all_terms", "rt_polarity", "text_gcn", "newsgroups"),
    "texts": ("texts", "text_lines"),
}

# Between the turns of a dialogue. What BERT has between segments; as part of a text it becomes that token.
TURN = "[SEP]"


def structure_of(layout: str) -> str:
    """Return what a row is under ``layout``: pairs, triples, captions, stories, dialogues, labelled or texts."""
    return next(structure for structure, layouts in STRUCTURES.items() if layout in layouts)


def is_paired(layout: str) -> bool:
    """Return whether texts belong together under ``layout``, as an input and its output; single texts do not."""
    return structure_of(layout) not in ("labelled", "texts")
