"""Any encoder of transformers behind the interface of ours: padding instead of packing, and slower.

The documents of a packed row are padded to rows of their own, read by the model, and put back in place. A
model in which padding changes the states of a text (by a convolution, say) reads together only texts of the
same length.
`EncoderConfig.settings` holds the model's config.json, from which the module is built; its weights keep
transformers' names. Shapes: B rows of T tokens, N texts of at most L tokens, D hidden, E embedding.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.foundation.errors import ConfigError
from electra.model.encoder import PLAIN, Encoder, Variation
from electra.model.sizes import EncoderConfig

# What transformers calls rates of dropout
DROPOUTS = ("hidden_dropout_prob", "dropout", "embedding_dropout", "mlp_dropout", "resid_pdrop", "embd_pdrop")
TRIED = 8  # tokens, half of which are padding, with which `reads_padding` tries a model
ROUNDING = 1e-4  # of the largest state
ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")


@contextmanager
def quietly() -> Iterator[None]:
    """Silences the reports and bars of transformers, whose problems are errors and notes of ours."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def without_code(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out what names code: implementations of attention or experts, which transformers may fetch."""
    return {
        key: without_code(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if not key.endswith("_implementation") and key not in ("quantization_config", "auto_map")
    }


def settings_of(config: EncoderConfig) -> Any:
    """Returns transformers' configuration of an adapted encoder."""
    from transformers import AutoConfig

    values = AutoConfig.for_model(**without_code(json.loads(config.settings)))
    changes: dict[str, float] = {"vocab_size": config.vocab_size, "num_hidden_layers": config.num_layers}
    changes["pad_token_id"] = config.pad_id
    changes |= {name: config.dropout for name in DROPOUTS if isinstance(getattr(values, name, 0), float)}
    rates = [name for name in ATTENTION_DROPOUTS if isinstance(getattr(values, name, 0), float)]
    changes |= dict.fromkeys(rates, config.attention_dropout)
    for name, value in changes.items():
        setattr(values, name, value)
    return values


def without_pooler(model: nn.Module) -> nn.Module:
    """Returns the model without the layer that BERT's classifiers read; its parameters are shared."""
    if getattr(model, "pooler", None) is None:
        return model
    model = copy(model)
    model._modules = model._modules | {"pooler": nn.Identity()}  # which some call unasked
    return model


def reads_padding(model: Any, pad: int) -> bool:
    """Whether padding changes the states that a model of transformers gives to the text before it.

    A short text is read alone, with padding, and with other tokens in its place. The states of the last two
    must be equal bit for bit, as masked tokens have the weight 0, and those of the first but for rounding.
    """
    device, was_training = next(model.parameters()).device, model.training
    ids = torch.arange(1, 1 + TRIED, device=device)[None] % len(model.get_input_embeddings().weight)
    padded, mask = ids.clone(), (torch.arange(TRIED, device=device) < TRIED // 2).long()[None]
    padded[mask == 0] = pad
    try:
        model.eval()
        exact = torch.autocast(device.type, enabled=False)
        with quietly(), torch.no_grad(), exact, torch.random.fork_rng(enabled=device.type == "cpu"):
            alone = model(input_ids=ids[:, : TRIED // 2], attention_mask=mask[:, : TRIED // 2])
            found = [model(input_ids=each, attention_mask=mask) for each in (padded, ids)]
    finally:
        model.train(was_training)
    one, two = (each.last_hidden_state[:, : TRIED // 2] for each in found)
    difference = (alone.last_hidden_state - one).abs().max()
    return not torch.equal(one, two) or bool(difference > ROUNDING * one.abs().max())


@dataclass(frozen=True)
class Texts:
    """Documents of packed rows of about the same length, each padded to a row of its own."""

    index_NL: Tensor  # the place of each token among all B * T
    real_NL: Tensor  # which of them are tokens; the others are padding

    @classmethod
    def of(cls, document_ids_BT: Tensor, exact: bool = False) -> list["Texts"]:
        """Finds the texts, neighbours with the same id of 0 or more, grouped by length (2x, or `exact`)."""
        real, begins = document_ids_BT >= 0, torch.ones_like(document_ids_BT, dtype=torch.bool)
        begins[:, 1:] = document_ids_BT[:, 1:] != document_ids_BT[:, :-1]
        begins = (begins & real).flatten()
        starts_N, text = begins.nonzero().flatten(), begins.cumsum(0) - 1
        lengths_N = torch.bincount(text[real.flatten()], minlength=len(starts_N))
        groups, group_N = [], lengths_N if exact else torch.frexp(lengths_N - 0.5).exponent
        for group in sorted(set(group_N.tolist())):
            starts, lengths = starts_N[group_N == group, None], lengths_N[group_N == group, None]
            place_L = torch.arange(int(lengths.max()), device=starts.device)
            index_NL = (starts + place_L).clamp(max=document_ids_BT.numel() - 1)
            groups.append(cls(index_NL, place_L < lengths))
        return groups

    def of_rows(self, values_BTX: Tensor, fill: int = 0) -> Tensor:
        """Returns the values [N, L, ...] of rows [B, T, ...], with `fill` at the padding."""
        taken = values_BTX.flatten(0, 1)[self.index_NL]
        real = self.real_NL.view(*self.real_NL.shape, *[1] * (taken.dim() - 2))
        return taken.where(real, torch.as_tensor(fill, dtype=taken.dtype, device=taken.device))


def in_rows(groups: Sequence[Texts], states: Sequence[Tensor], rows: torch.Size) -> Tensor:
    """Returns the states [N, L, D] of all groups in their rows [B, T, D], zero at the padding."""
    index = torch.cat([texts.index_NL[texts.real_NL] for texts in groups])
    real_XD = torch.cat([part[texts.real_NL] for texts, part in zip(groups, states, strict=True)])
    states_XD = real_XD.new_zeros(rows.numel(), real_XD.shape[-1]).index_put((index,), real_XD)
    return states_XD.view(*rows, -1)


class AdaptedEncoder(Encoder):
    """An encoder that transformers computes."""

    def __init__(self, config: EncoderConfig, model: nn.Module | None = None) -> None:
        super().__init__()
        from transformers import AutoModel

        self.config = config
        self.layers = nn.ModuleList()  # none that could be compiled
        if model is None:
            with quietly():
                model = AutoModel.from_config(settings_of(config), dtype=torch.float32)
        whole: Any = model
        if hasattr(whole, "set_attention_type"):  # BigBird's first short text would turn it to this for good
            whole.set_attention_type("original_full")
        self.model: Any = without_pooler(whole)

    @cached_property
    def reads_padding(self) -> bool:
        """Whether texts must be read without padding; tried once."""
        return reads_padding(self.model, self.config.pad_id)

    @override
    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        document_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        variation: Variation = PLAIN,
    ) -> Tensor:
        if type(variation).limit_attention is not Variation.limit_attention:
            problem = "this objective limits who attends to whom, which transformers' encoders do not offer"
            raise ConfigError(problem, key="objective.name", fix="Start from an ELECTRA or a ModernBERT")
        # without document ids, each row is a text
        whole = torch.arange(input_ids.numel(), device=input_ids.device).view(input_ids.shape)
        groups = [Texts(whole, whole >= 0)]
        if document_ids is not None:
            groups = Texts.of(document_ids, exact=self.reads_padding)
        words = token_types = None
        if type(variation).embed is not Variation.embed:
            words = variation.embed(self.model.get_input_embeddings()(input_ids))
        if self.config.num_token_types > 1:
            token_types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        observes, outputs = type(variation).observe is not Variation.observe, list[Any]()
        for texts in groups:
            inputs = {"attention_mask": texts.real_NL.long()}
            if words is None:
                inputs["input_ids"] = texts.of_rows(input_ids, self.config.pad_id)
            else:
                inputs["inputs_embeds"] = texts.of_rows(words)
            if token_types is not None:
                inputs["token_type_ids"] = texts.of_rows(token_types)
            outputs.append(self.model(**inputs, output_hidden_states=observes, return_dict=True))
        for states in zip(*(output.hidden_states for output in outputs), strict=True) if observes else ():
            variation.observe(in_rows(groups, states, input_ids.shape))
        return in_rows(groups, [output.last_hidden_state for output in outputs], input_ids.shape)

    @property
    @override
    def words(self) -> nn.Module:
        return self.model.get_input_embeddings()  # type: ignore[no-any-return]

    @override
    def set_words(self, words: nn.Module) -> None:
        self.model.set_input_embeddings(words)


class _States(tuple[Tensor]):
    """What a published head reads of its encoder: the states, and nothing else."""

    def __getattr__(self, name: str) -> Tensor | None:
        return self[0] if name == "last_hidden_state" else None


class PublishedHead(nn.Module):
    """A published head: that of a masked language model for given states, a fine-tuned one for ids."""

    def __init__(self, model: Any) -> None:  # the whole model; its base is that of an `AdaptedEncoder`
        super().__init__()
        self._whole = (model,)  # in a tuple, so that the encoder is no submodule
        children = dict(model.named_children()) | {"pooler": getattr(model.base_model, "pooler", None)}
        self.parts = nn.ModuleDict({
            name: part for name, part in children.items() if part not in (None, model.base_model)
        })  # fmt: skip

    @property
    def whole(self) -> Any:
        """The model, encoder included."""
        return self._whole[0]

    @cached_property
    def reads_padding(self) -> bool:
        """Whether texts must be read without padding; tried once."""
        return reads_padding(self.whole.base_model, self.whole.config.pad_token_id or 0)

    def tuned_logits(self, ids: Tensor, document_ids: Tensor | None, types: Tensor | None) -> Tensor:
        """Returns a fine-tuned head's logits [B, outputs] or [B, T, outputs]; the arguments are [B, T]."""
        mask = torch.ones_like(ids) if document_ids is None else (document_ids >= 0).long()
        if not self.reads_padding or bool(mask.all()):
            return self._logits(ids, mask, types)
        lengths_B, found = mask.sum(1), dict[int, Tensor]()
        for length in sorted({*lengths_B.tolist()}):
            rows = (lengths_B == length).nonzero().flatten()
            own_types = None if types is None else types[rows, :length]
            logits = self._logits(ids[rows, :length], mask[rows, :length], own_types)
            if logits.dim() == 3:
                logits = nn.functional.pad(logits, (0, 0, 0, ids.shape[1] - length))
            found |= dict(zip(rows.tolist(), logits, strict=True))
        return torch.stack([found[row] for row in range(len(ids))])

    def _logits(self, ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
        inputs = {"input_ids": ids, "attention_mask": mask}
        outputs = self.whole(**inputs if types is None else {**inputs, "token_type_ids": types})
        if "start_logits" in outputs:
            return torch.stack([outputs.start_logits, outputs.end_logits], -1)
        return torch.as_tensor(outputs.logits)

    def forward(self, hidden: Tensor, table_VE: Tensor) -> Tensor:
        """Returns logits [..., V] for hidden states [..., D]; the class knows its token table itself."""
        states_1ND = hidden.reshape(1, -1, hidden.shape[-1])
        model, base = copy(self.whole), copy(self.whole.base_model)  # for this call; their weights are shared
        base.forward = lambda *_, **__: _States([states_1ND])
        model._modules = model._modules | {model.base_model_prefix: base}
        logits = model(input_ids=states_1ND.new_zeros(states_1ND.shape[:2], dtype=torch.long)).logits
        return torch.as_tensor(logits).view(*hidden.shape[:-1], -1)
