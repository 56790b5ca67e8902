"""TextCNN (Kim 2014) and its vocabulary of words."""

from collections import Counter
from collections.abc import Iterable

import torch
import transformers
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from torch import Tensor, nn
from torch.nn import functional as F

from models.common.transformer import RealTokens

PAD, UNKNOWN = 0, 1  # ids
_SPECIAL = ("[PAD]", "[UNK]")
_WIDTHS = (3, 4, 5)  # words that filters span
_LARGEST = 30000  # ids of a vocabulary, the two special ones included (ours)
# Words with their inner apostrophes and hyphens, or single signs.
_WORD = r"\w+(?:['’-]\w+)*|[^\w\s]"


class TextCnn(nn.Module):
    """Convolutions over word embeddings: the features are maxima of each filter over the runs of words of its width."""

    def __init__(self, vocabulary: int, embedding: int, filters: int) -> None:
        super().__init__()
        self.features = filters * len(_WIDTHS)  # width of the output
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        # Makes two views of a text differ (docs/clld.md); the paper's dropout, of features, is that of the classifier.
        self.dropout = nn.Dropout(0.1)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, filters, width) for width in _WIDTHS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the features (B, features) of word ids (B, L), padded at the right; the mask is 1 for words."""
        widest, length = max(_WIDTHS), max(input_ids.shape[1], max(_WIDTHS))
        present = F.pad(attention_mask, (0, length + widest - 1 - input_ids.shape[1])) != 0  # (B, L + widest - 1)
        ids = F.pad(input_ids, (0, length - input_ids.shape[1])).masked_fill(~present[:, :length], PAD)
        # a filter is applied from each word that is followed by enough words, and from the first word in any case
        within = torch.stack([present[:, width - 1:][:, :length] for width in _WIDTHS], dim=-1)  # (B, L, widths)
        within[:, 0] = True
        # texts of fewer words than a filter spans are padded by zero vectors; other padding is left out, except on an
        # accelerator, where the host would wait
        needed = present[:, :length].clone()
        needed[:, :widest] = True
        words = RealTokens(needed) if ids.is_cpu else None
        rows, counts = (part.flatten(0, 1) if words is None else words.rows(part) for part in (ids, within))
        embedded = self.dropout(self.embedding(rows))  # (n, embedding)
        # One product for all widths, whose filters are padded with zeros to the widest: on a CPU, with texts of 5 to 50
        # words, a training step takes half the time of padded convolutions.
        beyond = F.pad(embedded, (0, 0, 0, widest - 1))
        runs = torch.cat([beyond[shift:shift + len(embedded)] for shift in range(widest)], dim=-1)  # (n, widest e)
        weights = [convolution.get_parameter("weight").transpose(1, 2).flatten(1) for convolution in self.convolutions]
        filters = torch.cat([F.pad(weight, (0, runs.shape[1] - weight.shape[1])) for weight in weights])
        biases = torch.cat([convolution.get_parameter("bias") for convolution in self.convolutions])
        scores = F.relu(F.linear(runs, filters, biases))  # (n, features), of the runs that begin at each word
        # ReLU is never below 0, so that 0 leaves a run or padding out of the maximum
        counted = (scores.unflatten(-1, (len(_WIDTHS), -1)) * counts.unsqueeze(-1)).flatten(-2)
        return (counted.unflatten(0, ids.shape) if words is None else words.padded(counted)).amax(1)


def word_tokenizer(texts: Iterable[str], min_count: int) -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of the lower-case words and signs of ``texts``; those rarer than ``min_count`` are unknown."""
    splitting, counts = _rules(), Counter[str]()
    for text in texts:
        lower = splitting.normalizer.normalize_str(text)
        counts.update(word for word, _ in splitting.pre_tokenizer.pre_tokenize_str(lower))
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    words = [*_SPECIAL, *(word for _, word in kept)][:_LARGEST]
    tokenizer = _rules({word: number for number, word in enumerate(words)})
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_SPECIAL[PAD], unk_token=_SPECIAL[UNKNOWN],
        model_input_names=["input_ids", "attention_mask"])


def _rules(numbers: dict[str, int] | None = None) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(numbers or {_SPECIAL[UNKNOWN]: UNKNOWN}, unk_token=_SPECIAL[UNKNOWN]))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    return tokenizer
