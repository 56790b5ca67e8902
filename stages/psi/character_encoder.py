"""An encoder for texts that no available pre-trained one can read: word pieces of characters, and their vectors.

The vocabulary and the word embeddings (skip-gram) are learned from the training split. The layers of the BERT are
drawn by the project's seed with outputs of zero, so that the encoder gives each text the mean of its pieces' vectors
until it is trained further. It is no pre-trained language model.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertModel, BertTokenizer

from keycontrast.errors import InputError
from keycontrast.files import atomic_folder
from stages.common.examples import all_text_ids
from stages.common.lookup import Lookup
from stages.common.paths import DatasetPaths
from stages.common.schemas import EXAMPLES, SPLITS, TEXTS
from stages.common.seeds import derived_seed
from stages.common.tables import read_table, write_json
from stages.common.word_vectors import train_skip_gram, training_description
from stages.run.process import StageProcess, run_stage

STAGE = "character_encoder"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Of any vocabulary, so that no word of Latin letters and no number is unknown.
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_INSIDE = "##"
_LENGTH = 512
# Scale of position embeddings; small beside word embeddings of length 1 (0.06 per dimension of 256), so that the mean
# of a text's pieces depends on its content rather than on its length.
_POSITIONS = 0.01


def run(texts: dict[str, list[str]], values: dict[str, Any],
        seed: int) -> tuple[BertModel, BertTokenizer, dict[str, Any]]:
    """Build an encoder from the ``texts`` of the training split; return it with its tokenizer and metrics."""
    numbers = {piece: number for number, piece in enumerate(
        vocabulary(texts["train"], values["min_count"], values["min_word_count"]))}
    tokenizer = BertTokenizer(vocab=numbers, do_lower_case=True, model_max_length=_LENGTH)
    pieces = {split: tokenizer(split_texts, add_special_tokens=False)["input_ids"] if split_texts else []
              for split, split_texts in texts.items()}
    special = set(tokenizer.all_special_ids)
    sentences = [tokenizer.convert_ids_to_tokens([piece for piece in ids if piece not in special])
                 for ids in pieces["train"]]
    settings = {"size": values["size"], "window": values["window"], "min_count": 1, "epochs": values["epochs"],
                "isotropic": True}
    try:
        words, vectors = train_skip_gram(sentences, seed=derived_seed(seed, STAGE, "vectors"), **settings)
    except ValueError as error:
        raise InputError(f"table texts: the training split is too small for an encoder: {error}.") from error
    # Pieces without one, the special ones among these, have vectors as long as the others.
    drawn = np.random.default_rng(derived_seed(seed, STAGE, "pieces")).standard_normal((len(tokenizer), values["size"]))
    table = (drawn / np.sqrt(values["size"])).astype(np.float32)
    table[tokenizer.convert_tokens_to_ids(words)] = vectors
    unknown = {split: _share([piece == tokenizer.unk_token_id for ids in rows for piece in ids])
               for split, rows in pieces.items()}
    return encoder_of(table, values, derived_seed(seed, STAGE, "layers")), tokenizer, {
        "pieces": len(tokenizer), "with_vector": len(words), "training_texts": len(texts["train"]),
        "share_unknown": unknown, "vectors": training_description(**settings)}


def vocabulary(texts: Sequence[str], min_count: int, min_word_count: int) -> list[str]:
    """Return the word pieces: special ones, characters that occur ``min_count`` times, longer words that occur
    ``min_word_count`` times, and the characters inside of words; each group sorted.

    Chinese characters are words of one character (BERT's basic tokens), so they need no piece inside of words.
    """
    words = Counter(word for text in texts for word in _basic(text))
    characters = Counter(chain.from_iterable(words.elements()))
    known = {character for character, count in characters.items() if count >= min_count} | set(_ALPHABET)
    whole_words = {word for word, count in words.items() if len(word) > 1 and count >= min_word_count}
    inside = {character for word in words if len(word) > 1 for character in word[1:]} & known | set(_ALPHABET)
    return [*SPECIAL, *sorted(known | whole_words), *sorted(_INSIDE + character for character in inside)]


def _basic(text: str) -> Iterator[str]:
    for part in text.split("[SEP]"):  # between the turns of a dialogue, where it is one special token
        yield from (word for word, _ in BertPreTokenizer().pre_tokenize_str(
            BertNormalizer(lowercase=True).normalize_str(part)))


def encoder_of(table: np.ndarray, values: dict[str, Any], seed: int) -> BertModel:
    """Return a BERT with word embeddings ``table`` (V, d), whose layers add nothing until they are trained.

    The output matrices of attention and feed-forward blocks are zero; all other weights are drawn by ``seed``.
    """
    config = BertConfig(vocab_size=len(table), hidden_size=values["size"], num_hidden_layers=values["layers"],
                        num_attention_heads=values["heads"], intermediate_size=values["feed_forward"],
                        max_position_embeddings=_LENGTH, pad_token_id=SPECIAL.index("[PAD]"))
    torch.manual_seed(seed)
    model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        weights = dict(model.named_parameters())
        weights["embeddings.word_embeddings.weight"].copy_(torch.from_numpy(table))
        weights["embeddings.position_embeddings.weight"].mul_(_POSITIONS / config.initializer_range)
        weights["embeddings.token_type_embeddings.weight"].zero_()
        for name, weight in weights.items():
            if name.endswith("output.dense.weight"):
                weight.zero_()
    return model.eval()


def _share(values: list[bool]) -> float | None:
    return round(float(np.mean(values)), 6) if values else None


def _work(process: StageProcess) -> None:
    params, paths = process.params, DatasetPaths(process.instance)
    examples = read_table(paths.table("examples"), EXAMPLES)
    lookup = Lookup.read(paths.table("texts"), TEXTS, ["text_id", "text"])
    ids = {split: all_text_ids(examples.filter(pc.equal(examples["split"], split))) for split in SPLITS}
    texts = {split: lookup.of(of_split)["text"].to_pylist() for split, of_split in ids.items()}
    model, tokenizer, metrics = run(texts, params.character_encoder.plain(), params.seed)
    with atomic_folder(paths.character_encoder) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    write_json(paths.metrics(STAGE), metrics)
    sys.stderr.write(f"{process.name}: {metrics['pieces']} word pieces; unknown: " + ", ".join(
        f"{split} {share:.2%}" for split, share in metrics["share_unknown"].items() if share is not None) + "\n")


main = partial(run_stage, STAGE, _work)
