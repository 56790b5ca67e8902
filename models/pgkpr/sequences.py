"""The two-part sequences that PGKPR's encoder reads, and what it reconstructs of them (PGKPR section 4)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from models.common.special import BOS, EOS, IGNORE, NOK, PAD, SEP


class _Frame(NamedTuple):
    """Where the parts of sequences ``<s> part 1 <sep> part 2 </s>`` lie.

    Attributes:
        special: ids of <s>, <sep>, </s> and padding at their places, any elsewhere (B, W).
        first, second: places of the two parts (B, W).
        real: all but padding (B, W).
        source: which word of the text each place of a part takes (B, W).
    """

    special: Tensor
    first: Tensor
    second: Tensor
    real: Tensor
    source: Tensor


class Mixture(NamedTuple):
    """TS_s but for the choice of keywords, on which every token of it depends by one word; (B, W) each.

    Attributes:
        source: that word's place in the text; of <s>, <sep>, </s> and padding, any.
        as_word, as_tag: its id and its tag; of the others, themselves.
        first: places of part 1, where keywords stand as words; in part 2, all else.
        keyword, other: what is to be reconstructed if it is a keyword, and if it is not.
    """

    source: Tensor
    as_word: Tensor
    as_tag: Tensor
    first: Tensor
    keyword: Tensor
    other: Tensor

    def chosen(self, keywords: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids and targets, given whether the word at ``source`` is a keyword."""
        return (torch.where(keywords == self.first, self.as_word, self.as_tag),
                torch.where(keywords, self.keyword, self.other))


def mixture(x_ids: Tensor, x_tags: Tensor, lengths: Tensor, width: int | None = None) -> tuple[Mixture, Tensor]:
    """Return TS_s of each text before keywords are chosen, and attention (True for real places).

    Args:
        x_ids: words (B, L).
        x_tags: their tags (B, L).
        lengths: words of each text (B,), each at least 1.
        width: W, at least and by default 2 max(lengths) + 3.
    """
    frame = _frame(lengths, width)
    words, tags = (part.gather(1, frame.source) for part in (x_ids, x_tags))
    keyword, other = torch.where(frame.first, tags, words), torch.where(frame.first, tags, NOK)
    targets = (_filled(frame, part).masked_fill(~frame.real, IGNORE) for part in (keyword, other))
    return Mixture(frame.source, _filled(frame, words), _filled(frame, tags), frame.first, *targets), frame.real


def perturbed(x_ids: Tensor, x_tags: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return TS_s: ``<s> part 1 <sep> part 2 </s>`` of each text, and what is to be reconstructed of it.

    Part 1 holds keywords as words and all else as tags, part 2 the other way round. Targets are the tags of part 1,
    the keywords of part 2 and [NOK] where part 2 has a word; <s>, <sep> and </s> are their own targets.

    >>> ids, tags = torch.tensor([[21, 22]]), torch.tensor([[11, 12]])
    >>> perturbed(ids, tags, torch.tensor([[True, False]]), torch.tensor([2]))[:2]
    (tensor([[ 2, 21, 12,  4, 11, 22,  3]]), tensor([[ 2, 11, 12,  4, 21,  5,  3]]))

    Args:
        x_ids: words (B, L).
        x_tags: their tags (B, L).
        mask: True for keywords (B, L).
        lengths: words of each text (B,), each at least 1.

    Returns:
        Ids, targets (``IGNORE`` at padding) and attention (True for real places), each (B, W) with
        W = 2 max(lengths) + 3.
    """
    mixed, real = mixture(x_ids, x_tags, lengths)
    return *mixed.chosen(mask.bool().gather(1, mixed.source)), real


def counterpart(ids: Tensor, tags: Tensor, lengths: Tensor, order: str,
                width: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the unperturbed pair sequence of each text, for the contrast.

    >>> counterpart(torch.tensor([[21, 22]]), torch.tensor([[11, 12]]), torch.tensor([2]), "pos_sent")[0]
    tensor([[ 2, 11, 12,  4, 21, 22,  3]])

    Args:
        ids: words (B, L).
        tags: their tags (B, L).
        lengths: words of each text (B,), each at least 1.
        order: ``pos_sent``, ``<s> tags <sep> words </s>``, or ``sent_pos``, words first.
        width: W, at least and by default 2 max(lengths) + 3.

    Returns:
        Ids and attention (True for real places), each (B, W).

    Raises:
        ValueError: the order is unknown.
    """
    if order not in ("pos_sent", "sent_pos"):
        raise ValueError(f"counterpart: order is {order!r}, expected 'pos_sent' or 'sent_pos'")
    frame = _frame(lengths, width)
    words, labels = (part.gather(1, frame.source) for part in (ids, tags))
    tags_here = frame.first if order == "pos_sent" else frame.second
    return _filled(frame, torch.where(tags_here, labels, words)), frame.real


def wrapped(ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``<s> words </s>`` of each text (B, L + 2), padded at the right, and the lengths of these (B,).

    >>> wrapped(torch.tensor([[21, 22], [23, 0]]), torch.tensor([2, 1]))
    (tensor([[ 2, 21, 22,  3],
            [ 2, 23,  3,  0]]), tensor([4, 3]))

    Args:
        ids: words (B, L), padded at the right.
        lengths: words of each text (B,).
    """
    longer = F.pad(F.pad(ids, (1, 0), value=BOS), (0, 1), value=PAD)
    return longer.scatter(1, lengths.unsqueeze(1) + 1, EOS), lengths + 2


def _frame(lengths: Tensor, width: int | None) -> _Frame:
    longest = int(lengths.max())
    place = torch.arange(width or 2 * longest + 3, device=lengths.device).unsqueeze(0)  # (1, W)
    length = lengths.unsqueeze(1)  # (B, 1)
    first = (place > 0) & (place <= length)
    second = (place > length + 1) & (place <= 2 * length + 1)
    real = place <= 2 * length + 2
    source = torch.where(first, place - 1, place - length - 2).clamp(0, longest - 1)
    special = torch.where(place == 0, BOS, torch.where(place == length + 1, SEP, torch.where(real, EOS, PAD)))
    return _Frame(special, first, second, real, source)


def _filled(frame: _Frame, parts: Tensor) -> Tensor:
    return torch.where(frame.first | frame.second, parts, frame.special)
