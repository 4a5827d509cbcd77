"""The contract tests of objectives: `electra.testing.ObjectiveContract`."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from electra import objectives
from electra.foundation.errors import ConfigError
from electra.testing import toy
from electra.testing.contracts import Contract

# Tolerance between two ways of dividing a batch, relative to the loss or the largest gradient. Only the order
# of float32 sums differs: two orders of n terms differ by at most 2 n u = n eps (Higham 2002, section 4.2),
# with at most 8 x 16 positions. Dividing by each micro-batch's own counts is off by thousands of times that.
FLOAT32_TOLERANCE = 8 * 16 * float(np.finfo(np.float32).eps)


def corrupted(
    objective: Any, size: int = 8, *, step: int = 0, start: int = 0, stop: int | None = None, seed: int = 3
) -> Any:
    """Returns a corrupted batch of the toy store; `start` and `stop` select rows of a batch of `size`."""
    return objective.corrupt(toy.batches().batch(step, size, start, stop), seed, 0.0)


def tensors_of(batch: Any) -> dict[str, torch.Tensor]:
    """Returns the tensors of a corrupted batch by the names of their fields."""
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    return {name: value for name, value in fields.items() if isinstance(value, torch.Tensor)}


def options_of(name: str) -> dict[str, Any]:
    """Returns the fields of an objective's options by name."""
    return {field.name: field for field in dataclasses.fields(objectives.module_of(name).Config)}


def with_mask_fraction(name: str, fraction: float) -> Any:
    """Returns the objective with this mask fraction, if it has such an option."""
    return toy.objective(name, **({"mask_fraction": fraction} if "mask_fraction" in options_of(name) else {}))


class ObjectiveContract(Contract):
    """Contract tests of objectives. Subclass this in a test file, with the objective's name or path."""

    subject = "objective"
    objective: ClassVar[str | Path | Sequence[str | Path]]

    def test_shapes_and_counts(self, name: str) -> None:
        objective = toy.objective(name)
        batch = corrupted(objective)
        assert batch.input_ids.shape == batch.masked_ids.shape == (8, 16)
        assert batch.masked_positions.shape == batch.targets.shape == batch.uniforms.shape
        outcome = objective.forward(toy.pair_for(objective), batch)
        assert set(outcome.losses) == set(objective.weights) == set(batch.counts)
        assert all(loss.shape == () and torch.isfinite(loss) for loss in outcome.losses.values())
        assert objective.source and dataclasses.is_dataclass(objective.config)

    def test_special_tokens_are_never_masked_and_the_rate_is_exact(self, name: str) -> None:
        clean = toy.batches().batch(0, 64)
        batch = with_mask_fraction(name, 0.3).corrupt(clean, 3, 0.0)
        masked: Any = np.zeros(clean.special.size, dtype=bool)
        masked[batch.masked_positions.numpy()] = True
        masked = masked.reshape(clean.special.shape)
        assert not (masked & clean.special).any()
        if "mask_fraction" in options_of(name):
            expected = [max(1, round(0.3 * candidates)) for candidates in (~clean.special).sum(1)]
            assert masked.sum(1).tolist() == expected
        assert (batch.masked_ids.numpy()[~masked] == clean.input_ids[~masked]).all()
        assert (batch.targets.numpy() == clean.input_ids[masked]).all()
        assert len(np.unique(batch.masked_positions)) == len(batch.masked_positions)

    def test_same_key_same_bits_and_other_keys_other_draws(self, name: str) -> None:
        objective = toy.objective(name)
        first, again = tensors_of(corrupted(objective)), tensors_of(corrupted(objective))
        assert all(torch.equal(first[key], again[key]) for key in first.keys() | again.keys())
        other = tensors_of(corrupted(objective, seed=4))
        assert not all(torch.equal(first[key], other[key]) for key in ("masked_positions", "masked_ids"))
        assert not torch.equal(first["uniforms"], other["uniforms"])
        assert not torch.equal(first["uniforms"][:5], corrupted(objective, step=1).uniforms[:5])

    def test_corruption_does_not_depend_on_how_the_batch_is_shared_out(self, name: str) -> None:
        objective = with_mask_fraction(name, 0.6)
        whole, parts = corrupted(objective), [corrupted(objective, start=i, stop=i + 2) for i in (0, 2, 4, 6)]
        assert torch.equal(whole.masked_ids, torch.cat([part.masked_ids for part in parts]))
        assert torch.equal(whole.uniforms, torch.cat([part.uniforms for part in parts]))

    def test_losses_and_gradients_do_not_depend_on_micro_batches(self, name: str) -> None:
        objective = toy.objective(name)
        pair = toy.pair_for(objective).double()
        losses, gradients = toy.loss_and_gradients(objective, pair, [corrupted(objective)])
        parts = [corrupted(objective, start=start, stop=stop) for start, stop in ((0, 1), (1, 5), (5, 8))]
        split_losses, split_gradients = toy.loss_and_gradients(objective, pair, parts)
        for key, value in losses.items():
            assert split_losses[key] == pytest.approx(value, rel=FLOAT32_TOLERANCE)
        scale = max(float(gradient.abs().max()) for gradient in gradients.values())
        for key, gradient in gradients.items():
            assert float((split_gradients[key] - gradient).abs().max()) <= FLOAT32_TOLERANCE * scale, key

    def test_finite_with_nothing_masked(self, name: str) -> None:
        objective = toy.objective(name)
        batch = corrupted(objective)
        shape, tensors = batch.targets.shape, tensors_of(batch)
        changes = {key: tensor[:0] for key, tensor in tensors.items() if tensor.shape[:1] == shape}
        counts = {key: 0 if count == len(batch.targets) else count for key, count in batch.counts.items()}
        changes["masked_ids"] = batch.input_ids
        empty = dataclasses.replace(batch, **changes, counts=counts)
        losses, gradients = toy.loss_and_gradients(objective, toy.pair_for(objective), [empty])
        assert all(np.isfinite(value) for value in losses.values())
        assert all(torch.isfinite(gradient).all() for gradient in gradients.values())

    @pytest.mark.parametrize("architecture", ["electra", "modern"])
    def test_learns_one_batch_by_heart(self, name: str, architecture: str) -> None:
        objective = toy.objective(name)
        pair = toy.pair_for(objective, architecture=architecture)
        batch = corrupted(objective, 4)
        optimizer = torch.optim.AdamW(pair.parameters(), lr=5e-3)
        history = []
        for _ in range(80):
            history.append(toy.loss_and_gradients(objective, pair, [batch])[0])
            optimizer.step()
        first, last = (
            sum(weight * losses[key] for key, weight in objective.weights.items())
            for losses in (history[0], history[-1])
        )
        assert last < 0.5 * first
        if objective.weights.get("mlm"):  # an adversarial generator's MLM loss is only recorded
            assert history[-1]["mlm"] < 0.3 * history[0]["mlm"]

    def test_the_full_size_network_does_not_teach_the_small_one_unless_it_says_so(self, name: str) -> None:
        objective = toy.objective(name)
        pair = toy.pair_for(objective)
        auxiliary = list(pair.own_parameters(pair.auxiliary)) if pair.auxiliary else []
        if not auxiliary:  # a single network has no other to train
            assert pair.auxiliary is None and not objective.feedback
            return
        losses = dict(objective.forward(pair, corrupted(objective)).losses)
        own = losses.pop("mlm" if objective.main == "discriminator" else "sampler")

        def reaches(loss: torch.Tensor) -> bool:
            parts = torch.autograd.grad(loss, auxiliary, retain_graph=True, allow_unused=True)
            return any(part is not None and bool(part.any()) for part in parts)

        assert any(reaches(loss) for loss in losses.values() if loss.requires_grad) == objective.feedback
        assert objective.feedback or reaches(own)

    def test_padding_changes_nothing(self, name: str) -> None:
        """Rows with padding have the losses of the same rows without it."""
        objective = toy.objective(name)
        pair = toy.pair_for(objective).double()
        batch = corrupted(objective, 2, stop=1)
        B, T = batch.input_ids.shape
        documents = batch.document_ids if batch.document_ids is not None else torch.zeros(B, T).long()
        positions = batch.position_ids if batch.position_ids is not None else torch.arange(T).expand(B, T)
        columns = {
            "input_ids": (batch.input_ids, toy.SPECIALS.pad),
            "masked_ids": (batch.masked_ids, toy.SPECIALS.pad),
            "document_ids": (documents, -1),
            "position_ids": (positions, 0),
        }
        padded = {key: torch.nn.functional.pad(ids, (0, 5), value=pad) for key, (ids, pad) in columns.items()}
        losses = objective.forward(pair, batch).losses
        padded_losses = objective.forward(pair, dataclasses.replace(batch, **padded)).losses
        for key, value in losses.items():
            assert float(padded_losses[key].detach()) == pytest.approx(float(value.detach()), rel=1e-6)

    def test_unknown_options_and_values_beyond_their_limits_are_refused(self, name: str) -> None:
        """The limits are those of options declared with `share` or `weight`."""
        with pytest.raises(ConfigError) as refused:
            toy.objective(name, no_such=0.2)
        assert refused.value.where == "objective.no_such"
        for option, field in options_of(name).items():
            lowest, highest, _ = field.metadata.get("limits", (math.inf, -math.inf, ""))
            for value in (lowest - 0.5, highest * 2, math.nan) if lowest <= highest else ():
                with pytest.raises(ConfigError) as refused:
                    toy.objective(name, **{option: value})
                assert refused.value.key.startswith("objective.") and str(value) in refused.value.what

    def test_evaluation_fixes_the_mask_rate(self, name: str) -> None:
        if not {"mask_fraction", "final_mask_fraction"} <= options_of(name).keys():
            pytest.skip("its mask fraction is constant")
        objective = toy.objective(name, mask_fraction=0.5, final_mask_fraction=0.1)
        batch = toy.batches().batch(0, 64)
        num_masked = len(objective.for_evaluation(0.15).corrupt(batch, 3, 0.0).targets)
        assert num_masked == len(toy.objective(name, mask_fraction=0.15).corrupt(batch, 3, 1.0).targets)
