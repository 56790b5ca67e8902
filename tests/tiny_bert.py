"""A BERT of width 16 with a word-piece vocabulary, built in the test, saved as from_pretrained expects."""

from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel, BertTokenizerFast

_TEXT = """what is the best way to learn a new language how do i find good school for lose weight fast dog cat
run eat play why who where you can tell me about , . ? ' ##s ##ing un ##known"""
WORDS = _TEXT.split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def tokenizer(folder: Path) -> BertTokenizerFast:
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64)


def config(**changes) -> BertConfig:
    return BertConfig(vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=32, max_position_embeddings=64, **changes)


def save_encoder(folder: Path, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    BertModel(config()).save_pretrained(folder)
    tokenizer(folder).save_pretrained(folder)
    return folder


def classifier(seed: int = 0):
    torch.manual_seed(seed)
    # Default weights of 0.02 make every logit alike at this width.
    return AutoModelForSequenceClassification.from_config(config(num_labels=2, initializer_range=0.3)).eval()
