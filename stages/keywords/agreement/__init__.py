"""Things of one kind beside each other: keywords of several methods, and classifiers on the same texts."""
