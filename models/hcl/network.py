"""The HCL network: a conditional variational encoder-decoder with a keyword graph (HCL, ACL 2022)."""

from collections.abc import Mapping
from typing import Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from models.encoders import mean_pool
from models.hcl.config import HclConfig
from models.hcl.contrasts import keyword_output, latent_output, level_output
from models.hcl.decoder import Decoder
from models.hcl.graph_attention import GraphAttention
from models.hcl.impostor import Impostor, impostor_candidates
from models.hcl.keyword_graph import KeywordGraph
from models.hcl.latent import GaussianNetwork
from models.hcl.output import HclOutput, KeywordOutput
from models.losses import bow_loss

_LATENT_SHARE = 0.15  # of a word embedding's length that We z has at the start
_JOINT_WASTE = 1.25  # texts share one encoder pass if padding them to one length costs at most a quarter


class TiedOutput(nn.Module):
    """Scores over the vocabulary by the input embedding matrix, with a bias of their own.

    The matrix is handed in at each call, so that it is tied by construction: no key to save, load or tie.
    """

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """Score states (..., d) against embeddings (V, d) -> (..., V)."""
        return F.linear(states, embeddings, self.bias)


class HclNetwork(PreTrainedModel):
    """HCL: x -> y by way of z, with keyword vectors from a graph; :class:`models.hcl.HclModel` adds decoding.

    Symbols: H_x (B, Lx, d) and h_x (B, d) encoder states of the input and their mean over real tokens;
    u_in, u_out, u_imp (B, d) vectors of input, output and impostor keyword; p(z|x,u_in) prior and
    q(z|x,y) posterior over z (B, dz). z enters the decoder as a memory slot, [Wm z ; H_x], and is added to
    every input embedding, e_t + We z (METHODS A.7).

    All modules exist whatever the configuration switches off, so that every row of an ablation table starts
    from the same weights under one seed; what is off is not run and gets no gradient.

    A batch is a dict of tensors: ``x_ids``, ``x_mask`` (B, Lx); ``y_ids``, ``y_mask`` (B, Ly) with [CLS] and
    [SEP]; ``y_in``, ``y_out``, ``y_in_mask`` (B, Lt), the shifted pair; ``neg_ids``, ``neg_mask`` (B, Ln),
    ``has_negative`` (B,); ``kx``, ``ky``, ``kneg`` (B,) node ids, -1 for none. Optional: ``eps`` (B, dz),
    noise for z (else drawn), and ``unseen_vectors`` (B, d), initial vectors where ``kx`` is -1. Every mask
    has a real token in each row; a row without a negative holds, say, [CLS] [SEP].
    """

    config: HclConfig
    config_class = HclConfig
    base_model_prefix = "hcl"
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, config: HclConfig) -> None:
        super().__init__(config)
        width, size = config.hidden_size, config.latent_size
        self.encoder = BertModel(BertConfig(**config.encoder), add_pooling_layer=False)
        self.decoder = Decoder(config)
        self.word_scores = TiedOutput(config.vocab_size)
        self.graph = KeywordGraph(config.num_nodes, config.num_edges, width)
        self.attention = GraphAttention(
            width, config.graph["iterations"], config.graph["edge_type"], config.graph["layer_norm"]
        )
        self.impostor = Impostor(width, config.keyword["imp_weight"])
        self.prior = GaussianNetwork(width, size)
        self.posterior = GaussianNetwork(width, size)
        self.latent_slot = nn.Linear(size, width)  # Wm
        self.latent_embedding = nn.Linear(size, width, bias=False)  # We
        self.keyword_slot = nn.Linear(width, width)
        self.keyword_points = nn.Linear(width, size, bias=False)  # P of the contrast between levels
        self.bow_hidden = nn.Linear(width + size, width)
        self.bow_scores = TiedOutput(config.vocab_size)
        self._vectors: Tensor | None = None
        self.register_load_state_dict_post_hook(_forget_vectors)
        self.post_init()

    @classmethod
    def from_parts(
        cls, config: HclConfig, encoder: PreTrainedModel | None = None, graph: KeywordGraph | None = None
    ) -> Self:
        """Build a model to train: weights of a pre-trained encoder, the graph's tensors, the rest random.

        Args:
            config: its encoder part must be that of ``encoder``, its sizes those of ``graph``.
            encoder: from :func:`models.encoders.load_encoder`; None leaves the encoder random.
            graph: from :meth:`KeywordGraph.from_edges`; None if the configuration has no nodes.

        Raises:
            RuntimeError: sizes do not agree.
        """
        model = cls(config)
        if encoder is not None:
            weights = {name: value for name, value in encoder.state_dict().items() if not name.startswith("pooler.")}
            model.encoder.load_state_dict(weights)
            positions = model.encoder.embeddings.position_embeddings.weight
            model.decoder.positions.weight.data.copy_(positions)  # a start that the embeddings already know
        model._hush_latent()
        if graph is not None:
            model.graph.load_state_dict(graph.state_dict())
        return model

    @torch.no_grad()
    def _hush_latent(self) -> None:
        """Scale We so that, at the start, We z is a small share of a word embedding.

        At the start z is noise of variance 1 in every dimension. With weights of the usual size, its image
        is several times as long as a word embedding of a sentence encoder, and the decoder sees no word.
        """
        words = self.encoder.embeddings.word_embeddings.weight.std()
        noise = self.latent_embedding.weight.std() * self.config.latent_size**0.5
        self.latent_embedding.weight.mul_(_LATENT_SHARE * words / noise)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word-piece embeddings, which also score the output."""
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word-piece embeddings of encoder, decoder and output at once."""
        self.encoder.set_input_embeddings(value)

    def forward(
        self,
        batch: Mapping[str, Tensor] | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        attention_mask: Tensor | None = None,
        latent: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
    ) -> HclOutput | Seq2SeqLMOutput:
        """Run a training pass over ``batch``, or one decoding step for ``generate``.

        Args:
            batch: see the class; returns :class:`HclOutput`. The rest belongs to decoding steps.
            decoder_input_ids: tokens so far, or the last one if there is a cache (B, L).
            encoder_outputs: memory from :meth:`memory` (B, S, d).
            attention_mask: True or 1 for real slots of the memory (B, S).
            latent: z (B, dz); None for the deterministic backbone.
            past_key_values: cache of earlier tokens, extended in place.
            use_cache, return_dict: set by ``generate``.
        """
        if batch is not None:
            return self._training_pass(batch)
        memory = encoder_outputs.last_hidden_state if encoder_outputs is not None else None
        if decoder_input_ids is None or memory is None or attention_mask is None:
            raise ValueError("HclModel: give a batch to train on, or call paraphrase() to generate")
        if self.config.latent["enabled"] and latent is None:
            raise ValueError("HclModel: decoding needs latent (B, dz); paraphrase() takes it from the prior")
        states = self.decode(decoder_input_ids, memory, attention_mask, latent, past_key_values)
        return Seq2SeqLMOutput(logits=self.score(states), past_key_values=past_key_values)

    def _training_pass(self, batch: Mapping[str, Tensor]) -> HclOutput:
        config = self.config
        states = self._encode_batch(batch)
        h = {name: mean_pool(hidden, batch[f"{name}_mask"]) for name, hidden in states.items()}  # (B, d) each
        keyword = self._keywords(batch) if config.uses_keyword else None
        u_in = keyword.u_in if keyword is not None else None

        latent, z, level = None, None, None
        if config.latent["enabled"]:
            prior, posterior = self.prior(h["x"], u_in), self.posterior(h["x"], h["y"])
            negative = self.posterior(h["x"], h["neg"]) if "neg" in h else None
            z = posterior.sample(self._noise(batch))  # (B, dz)
            bow = self._bow(h["x"], z, batch) if config.uses_bow else None
            latent = latent_output(config, prior, posterior, negative, batch.get("has_negative"), bow)
            if keyword is not None:
                points = self.keyword_points(keyword.u_out), self.keyword_points(keyword.u_imp)
                level = level_output(config, posterior, *points)
        reconstruction = self._reconstruct(states["x"], u_in, z, batch)
        return HclOutput(reconstruction, batch["y_in_mask"].sum(-1), latent, keyword, level)

    @torch.no_grad()
    def reconstruction(self, batch: Mapping[str, Tensor], source: Literal["prior", "zero"]) -> Tensor:
        """Return -log p(y+ | x, z) (B,) with z drawn from the prior, or z = 0.

        Compared with ``HclOutput.reconstruction``, where z comes from the posterior, it shows whether the
        decoder uses z at all.
        """
        if not self.config.latent["enabled"]:
            raise ValueError("HclModel: this model has no latent variable")
        hidden = self.encode(batch["x_ids"], batch["x_mask"])
        keyword = self._keywords(batch) if self.config.uses_keyword else None
        u_in = keyword.u_in if keyword is not None else None
        noise = self._noise(batch)
        z = self.prior(mean_pool(hidden, batch["x_mask"]), u_in).sample(noise) if source == "prior" else 0.0 * noise
        return self._reconstruct(hidden, u_in, z, batch)

    # Encoding

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return encoder states (B, L, d)."""
        return self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state

    def _encode_batch(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Encode x and, where there is a latent variable, y+ and y-; in one pass if their lengths are alike."""
        names = ["x", "y", "neg"] if self.config.latent["enabled"] else ["x"]
        names = [name for name in names if f"{name}_ids" in batch]
        lengths = [batch[f"{name}_ids"].shape[1] for name in names]
        if len(names) * max(lengths) > _JOINT_WASTE * sum(lengths):
            return {name: self.encode(batch[f"{name}_ids"], batch[f"{name}_mask"]) for name in names}
        pad = self.config.special_ids["pad"]
        ids = torch.cat([_widened(batch[f"{name}_ids"], max(lengths), pad) for name in names])
        mask = torch.cat([_widened(batch[f"{name}_mask"], max(lengths), 0) for name in names])
        hidden = self.encode(ids, mask).chunk(len(names))
        return {name: part[:, :length] for name, part, length in zip(names, hidden, lengths, strict=True)}

    # Keywords

    def keyword_vectors(self) -> Tensor:
        """Return the vectors u of all nodes (n, d), without gradients; kept until training goes on."""
        if self._vectors is None or self._vectors.device != self.graph.h0.device:
            self._vectors = self.attention.all_vectors(self.graph)
        return self._vectors

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode; either way vectors of the whole graph are computed anew."""
        self._vectors = None
        return super().train(mode)

    def _node_vectors(self, nodes: Tensor) -> Tensor:
        """Return u of the nodes (S, d): from the whole graph in evaluation, else from their neighbourhood."""
        if self.training or torch.is_grad_enabled():
            return self.attention(self.graph, nodes)
        return self.keyword_vectors()[nodes]

    def impostors(self, ky: Tensor, kneg: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes that impostors are made of; see :func:`impostor_candidates`."""
        return impostor_candidates(self.graph, ky, kneg, neighbours=self.config.graph["iterations"] > 0)

    def _keywords(self, batch: Mapping[str, Tensor]) -> KeywordOutput:
        kx, ky = batch["kx"], batch["ky"]
        sample, candidates, mask = self.impostors(ky, batch["kneg"])
        known = torch.nonzero(ky >= 0).squeeze(-1)
        seeds = [kx[kx >= 0], ky[known], candidates]
        of_x, of_y, of_candidates = self._node_vectors(torch.cat(seeds)).split([len(part) for part in seeds])
        u_in = self._with_unseen(kx, of_x, batch.get("unseen_vectors"))
        u_out = of_y.new_zeros(len(ky), of_y.shape[1]).index_copy(0, known, of_y)
        return keyword_output(self.config, u_in, u_out, self.impostor(u_out, of_candidates, sample), mask)

    def _with_unseen(self, nodes: Tensor, seen: Tensor, vectors: Tensor | None) -> Tensor:
        """Return u_in (B, d): ``seen`` where the node is known, a new node with its self loop elsewhere."""
        known, unknown = torch.nonzero(nodes >= 0).squeeze(-1), torch.nonzero(nodes < 0).squeeze(-1)
        if len(unknown) and vectors is None:
            raise ValueError(f"HclModel: {len(unknown)} input keywords are no nodes; give their unseen_vectors (B, d)")
        u_in = self.graph.h0.new_zeros(len(nodes), self.config.hidden_size).index_copy(0, known, seen)
        if vectors is None or not len(unknown):
            return u_in
        return u_in.index_copy(0, unknown, self.attention.isolated(vectors[unknown].to(u_in.dtype)))

    # Decoding

    def memory(self, hidden: Tensor, mask: Tensor, u_in: Tensor | None, z: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return what the decoder attends to, [Wm z ; u_in ; H_x] (B, S, d), and its mask (B, S)."""
        slots = [self.latent_slot(z)] if z is not None else []
        if self.config.decoder["kw_memory"] and u_in is not None:
            slots.append(self.keyword_slot(u_in))
        parts = [slot.unsqueeze(1) for slot in slots]
        real = torch.ones(len(mask), len(slots), dtype=torch.bool, device=mask.device)
        return torch.cat([*parts, hidden], dim=1), torch.cat([real, mask.bool()], dim=1)

    def decode(
        self, ids: Tensor, memory: Tensor, mask: Tensor, z: Tensor | None, cache: EncoderDecoderCache | None = None
    ) -> Tensor:
        """Return the decoder's states (B, L, d) for input tokens (B, L)."""
        embedded = self.get_input_embeddings()(ids)
        if z is not None:
            embedded = embedded + self.latent_embedding(z).unsqueeze(1)
        return self.decoder(embedded, memory, mask, cache)

    def score(self, states: Tensor) -> Tensor:
        """Return scores over the vocabulary (..., V) for states (..., d)."""
        return self.word_scores(states, self.get_input_embeddings().weight)

    def _reconstruct(
        self, hidden: Tensor, u_in: Tensor | None, z: Tensor | None, batch: Mapping[str, Tensor]
    ) -> Tensor:
        memory, memory_mask = self.memory(hidden, batch["x_mask"], u_in, z)
        states = self.decode(self._word_dropout(batch), memory, memory_mask, z)
        mask = batch["y_in_mask"].bool()
        logits = self.score(states[mask]).float()  # (tokens, V): padding never meets the vocabulary
        nll = F.cross_entropy(logits, batch["y_out"][mask], reduction="none")
        return torch.zeros(mask.shape, device=nll.device).masked_scatter(mask, nll).sum(-1)  # (B,)

    def _word_dropout(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Replace input words of the decoder by [MASK] at random, so that it has to lean on z."""
        ids, rate = batch["y_in"], self.config.latent["word_dropout"]
        if not self.training or rate == 0.0:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device) < rate
        dropped[:, 0] = False
        return ids.masked_fill(dropped, self.config.special_ids["mask"])

    def _bow(self, h_x: Tensor, z: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        state = torch.tanh(self.bow_hidden(torch.cat([h_x, z], dim=-1)))  # (B, d)
        logits = self.bow_scores(state, self.get_input_embeddings().weight)  # (B, V)
        return bow_loss(logits, batch["y_out"], batch["y_in_mask"].bool())

    def _noise(self, batch: Mapping[str, Tensor]) -> Tensor:
        if "eps" in batch:
            return batch["eps"]
        return torch.randn(len(batch["x_ids"]), self.config.latent_size, device=batch["x_ids"].device)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, TiedOutput):
            init.zeros_(module.bias)


def _widened(values: Tensor, length: int, fill: int) -> Tensor:
    return F.pad(values, (0, length - values.shape[1]), value=fill)


def _forget_vectors(model: HclNetwork, _: object) -> None:
    model._vectors = None
