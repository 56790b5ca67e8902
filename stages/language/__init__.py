"""English and Chinese text: pipelines, tokens and the recipe of the embedded English pipeline."""
