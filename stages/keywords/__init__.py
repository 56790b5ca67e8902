"""Keywords of texts by every method: the stages that rank, attribute, train and choose, and their workshops."""
