"""Random attacks on the project, each by seed and number: `python -m tests.harness mutate|bits|kill --n N --seed S`."""
