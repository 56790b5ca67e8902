"""Where the negatives of items come from: given, labelled, retrieved by overlap or BM25, outputs of other items."""
