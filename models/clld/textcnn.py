"""TextCNN (Kim 2014): convolutions over word embeddings, and the vocabulary of words that it reads."""

from collections import Counter
from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from models.common.rows import RealTokens

PAD, UNKNOWN = 0, 1
_WIDTHS = (3, 4, 5)  # words that filters span
_LARGEST = 30000  # ids of a vocabulary, the two special ones among them (ours)


class TextCnn(nn.Module):
    """Encoder of texts as (B, filters of all widths) features.

    A filter of width w reads every run of w words of a text, ReLU and the maximum over runs give its feature; a text
    of fewer than w words is continued by zero vectors to one run. Padding has no part in any feature.

    Args:
        vocabulary: ids, padding (0) and the unknown word (1) among them.
        embedding: width of a word's embedding.
        filters: of each width.
    """

    def __init__(self, vocabulary: int, embedding: int, filters: int) -> None:
        super().__init__()
        self.features = filters * len(_WIDTHS)  # width of the result
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        # So that two views of a text differ (docs/clld.md). The dropout of the original, on the features, belongs
        # to the classifier.
        self.dropout = nn.Dropout(0.1)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, filters, width) for width in _WIDTHS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the features (B, features) of word ids (B, L), padded at the right.

        Args:
            input_ids: words.
            attention_mask: True or 1 for words (B, L).
        """
        widest, length = max(_WIDTHS), max(input_ids.shape[1], max(_WIDTHS))
        there = F.pad(attention_mask, (0, length + widest - 1 - input_ids.shape[1])) != 0  # (B, L + widest - 1)
        ids = F.pad(input_ids, (0, length - input_ids.shape[1])).masked_fill(~there[:, :length], PAD)
        # the run of a filter begins at every word behind which there are enough, and at the first in any case
        within = torch.stack([there[:, width - 1:][:, :length] for width in _WIDTHS], dim=-1)  # (B, L, widths)
        within[:, 0] = True
        # texts of fewer words than a filter spans go on as zero vectors; all other padding is left out, but on an
        # accelerator, which would have to be waited for
        needed = there[:, :length].clone()
        needed[:, :widest] = True
        words = RealTokens(needed) if ids.is_cpu else None
        taken, counts = (part.flatten(0, 1) if words is None else words.rows(part) for part in (ids, within))
        embedded = self.dropout(self.embedding(taken))  # (N, embedding)
        scores = F.relu(self._scores(embedded, widest))  # (N, features), of the runs that begin at each word
        # ReLU is never below 0, so a run that does not count may stand as 0, and so may padding
        counted = (scores.unflatten(-1, (len(_WIDTHS), -1)) * counts.unsqueeze(-1)).flatten(-2)
        return (counted.unflatten(0, ids.shape) if words is None else words.padded(counted)).amax(1)

    def _scores(self, embedded: Tensor, widest: int) -> Tensor:
        """Return the scores of all filters (N, features) at the runs that begin at each of N words.

        One product for all widths, whose filters are continued by zeros to the widest, over words without padding: on a
        CPU, with texts of 5 to 50 words, a training step takes half the time that it takes with padded convolutions.
        """
        count = len(embedded)
        beyond = F.pad(embedded, (0, 0, 0, widest - 1))
        runs = torch.cat([beyond[shift:shift + count] for shift in range(widest)], dim=-1)  # (N, widest embedding)
        filters: list[Tensor] = []
        biases: list[Tensor] = []
        for convolution in self.convolutions:
            weight = convolution.get_parameter("weight").transpose(1, 2).flatten(1)  # (filters, width embedding)
            filters.append(F.pad(weight, (0, runs.shape[1] - weight.shape[1])))
            biases.append(convolution.get_parameter("bias"))
        return F.linear(runs, torch.cat(filters), torch.cat(biases))


SPECIAL = {PAD: "[PAD]", UNKNOWN: "[UNK]"}
# Words with their inner apostrophes and hyphens, or single signs.
_WORD = r"\w+(?:['’-]\w+)*|[^\w\s]"


def word_tokenizer(texts: Iterable[str], min_count: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of lower-case words and signs, its vocabulary counted on ``texts``.

    Ids are in the order of frequency, equal ones in that of the alphabet; padding is 0, the unknown word 1.

    Args:
        texts: of the training split.
        min_count: rarer words are unknown (ours; the original keeps all).
    """
    splitting, counts = _rules(), Counter[str]()
    for text in texts:
        lower = splitting.normalizer.normalize_str(text)
        counts.update(word for word, _ in splitting.pre_tokenizer.pre_tokenize_str(lower))
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    words = [*SPECIAL.values(), *(word for _, word in kept)][:_LARGEST]
    tokenizer = _rules({word: number for number, word in enumerate(words)})
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[PAD], unk_token=SPECIAL[UNKNOWN],
                                   model_input_names=["input_ids", "attention_mask"])


def _rules(numbers: dict[str, int] | None = None) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(numbers or {SPECIAL[UNKNOWN]: UNKNOWN}, unk_token=SPECIAL[UNKNOWN]))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    return tokenizer
