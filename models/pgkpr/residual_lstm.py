"""Residual-LSTM (Prakash et al. 2016, Neural Paraphrase Generation with Stacked Residual LSTM Networks)."""


import torch
from torch import Tensor, nn
from transformers import initialization as init

from models.common.special import PAD
from models.pgkpr.base import Batch, RewriterConfig
from models.pgkpr.recurrent import LstmStack, RecurrentRewriter, Sources, State, attend

_BOUND = 0.1


class ResidualLstm(RecurrentRewriter):
    """Stacked LSTMs with residual additions that read the source, and write the output from their last states.

    Most settings are ours (docs/pgkpr.md), since the paper's are not all known. A decoder's output h becomes
    tanh(W [c; h]) before words are scored, where c is the mean of the encoder's outputs by dot products with h (Luong
    et al. 2015, eq. 5, 8). Weights begin uniform in -0.1 .. 0.1, as there.
    """

    def __init__(self, config: RewriterConfig) -> None:
        width, dropout = config.residual_lstm.width, config.residual_lstm.dropout
        super().__init__(config, width)
        self.encoder, self.decoder = (LstmStack(width, layers=4, residual_every=2, dropout=dropout) for _ in range(2))
        self.combine = nn.Linear(2 * width, width, bias=False)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw all weights from one uniform distribution."""
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -_BOUND, _BOUND)
        if isinstance(module, nn.Embedding):
            init.zeros_(module.weight[PAD])

    def sums(self, batch: Batch, mask: Tensor | None) -> dict[str, Tensor]:
        """Return ``generation``, the sum of -log p(y | x) over the tokens of ``y_out``."""
        batch = self.planned(batch)
        state, sources = self.encode(batch)
        outputs, _ = self.decoder(self.embedding(batch["y_in"]), state)  # (B, T, d)
        return {"generation": self.generation(self._attending(outputs, sources), batch)}

    def encode(self, batch: Batch) -> tuple[State, Sources]:
        """Return the last states of every layer, and outputs (B, L, d) and which are real (B, L)."""
        texts = self.texts(batch)
        outputs, state = self.encoder.read(self.embedding(texts.words(batch["x_ids"])), texts)
        return state, (outputs, texts.real)

    def advance(self, tokens: Tensor, state: State, sources: Sources) -> tuple[Tensor, State]:
        """Append a token to every hypothesis (B, W); return what predicts the next ones (B, W, d), and the states."""
        outputs, state = self.decoder(self.embedding(tokens.view(-1, 1)), state)  # (B W, 1, d)
        return self._attending(outputs.view(*tokens.shape, -1), sources), state

    def _attending(self, outputs: Tensor, sources: Sources) -> Tensor:
        """Let outputs (B, Q, d) attend to those of the encoder."""
        memory, real = sources
        context = attend(outputs, memory, real, scale=1.0)  # (B, Q, d)
        return torch.tanh(self.combine(torch.cat([context, outputs], dim=-1)))
