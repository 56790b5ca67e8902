"""Texts of one group that say the same: columns of the user's own, or the captions of MSCOCO as published."""

from stages.ingest.layouts.layout import Column, Layout

LAYOUTS = (
    Layout("captions", "one of several texts that say the same", {
        "group": Column("what these texts have in common", "group", values="name"),
        "text": Column("one of them", "text")}),
    Layout("mscoco_captions", "a caption of MSCOCO, of the official JSON or of a table of the same", {
        "group": Column("the image", "image_id", values="name"), "text": Column("a caption of it", "caption")},
        published=True, quoting="standard", forms=(".csv", ".tsv", ".jsonl", ".json", ".parquet")),
)
