"""TextCNN's own vocabulary: the words of the training texts, in a tokenizer that is saved beside the model."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from models.clld.textcnn import PAD, UNKNOWN

SPECIAL = {PAD: "[PAD]", UNKNOWN: "[UNK]"}
# Words with their inner apostrophes and hyphens, or single signs.
_WORD = r"\w+(?:['’-]\w+)*|[^\w\s]"


def word_tokenizer(texts: Iterable[str], min_count: int = 2, largest: int | None = 30000) -> PreTrainedTokenizerFast:
    """Return a tokenizer of lower-case words and signs, its vocabulary counted on ``texts``.

    Ids are in the order of frequency, equal ones in that of the alphabet; padding is 0, the unknown word 1.

    Args:
        texts: of the training split.
        min_count: rarer words are unknown (ours; the original keeps all).
        largest: ids at most, the two special ones among them; None for no bound (ours).
    """
    splitting, counts = _rules(), Counter[str]()
    for text in texts:
        lower = splitting.normalizer.normalize_str(text)
        counts.update(word for word, _ in splitting.pre_tokenizer.pre_tokenize_str(lower))
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    words = [*SPECIAL.values(), *(word for _, word in kept)][:largest]
    tokenizer = _rules({word: number for number, word in enumerate(words)})
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[PAD], unk_token=SPECIAL[UNKNOWN],
                                   model_input_names=["input_ids", "attention_mask"])


def _rules(numbers: dict[str, int] | None = None) -> Tokenizer:
    tokenizer = Tokenizer(WordLevel(numbers or {SPECIAL[UNKNOWN]: UNKNOWN}, unk_token=SPECIAL[UNKNOWN]))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    return tokenizer
