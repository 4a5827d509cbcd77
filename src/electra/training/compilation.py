"""Regional compilation: torch.compile of each encoder layer; layers of equal shape share compiled code.

Nothing else is compiled and no module is wrapped, so names of weights, checkpoints and exports are unchanged.
The shape of the layers' inputs is fixed: it does not depend on the number of masked positions. So layers are
compiled at the start or not at all, and a resumed run uses the same kernels as an uninterrupted one. torch
caches compiled code on disk.
"""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from electra.foundation.errors import reason_of
from electra.model.encoder import Encoder
from electra.model.pair import Pair
from electra.model.precision import autocast, device_kind
from electra.training import budget
from electra.training.run import RunState

MIN_SECONDS = 600.0  # in shorter runs a minute of compiling may not pay off
# Compiled variants of a layer that torch may keep: generator and discriminator, first and other layers, and
# micro-batch sizes each need their own.
MAX_VARIANTS = 64
# A compiled gradient may differ from the plain one by this share of its norm and TINY of the largest norm.
# A bfloat16 is rounded by .004; some hundred roundings add up like noise, to .04. Wrong code is off by 1.
MAX_DIFFERENCE, TINY = 0.25, 1e-3


def compile_run(run: RunState, was_compiled: bool | None) -> list[str]:
    """Compiles the layers if the recipe says so or it pays off. Returns warnings.

    If the layers of one process cannot be compiled, no process compiles them.

    `was_compiled` is None for a new run. Compiled and uncompiled layers differ in the last bits, so a resumed
    run keeps its choice.
    """
    automatic = run.training.compile == "auto"
    wanted = was_compiled if automatic and was_compiled is not None else should_compile(run)
    problem = compile_layers(run) if wanted else None
    [num_failures] = run.world.sum([float(problem is not None)])
    if not num_failures:
        return []
    undo_compilation(run)
    return [f"warning: the layers are not compiled ({problem or 'another process could not compile them'})"]


def should_compile(run: RunState) -> bool:
    """Whether to compile the layers: as the recipe says, or for `auto` if the run is expected to be long.

    On a CPU, `auto` does not compile layers with dropout, because they would not be faster.
    """
    setting, budget_text = run.training.compile, run.training.budget
    if setting != "auto":
        return setting == "on"
    dropout = max(max(row.config.dropout, row.config.attention_dropout) for row in run.networks.trained)
    if dropout > 0 and run.device.type == "cpu":
        return False
    amount, unit = budget.parse(budget_text) if budget_text is not None else (0.0, "steps")
    flops = run.total_steps * run.flops_per_step
    expected_seconds = amount if unit == "seconds" else flops / device_kind(run.device).flops
    return expected_seconds >= MIN_SECONDS and device_kind(run.device).has_compiler()


def compile_layers(run: RunState) -> str | None:
    """Compiles the layers of all networks, runs them once and compares them with the plain layers.

    If that fails, undoes it and returns the reason; otherwise returns None.
    """
    import torch._dynamo
    import torch._inductor.config

    cache = os.environ.get("ELECTRA_CACHE") or Path.home() / ".cache" / "electra"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(cache) / "compiled"))
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MAX_VARIANTS)  # type: ignore[assignment]
    cpp = torch._inductor.config.cpp
    if getattr(cpp, "march", "") is None and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        # gcc 11 and 12 transpose bf16 wrongly without this if they do not know the processor by name
        # (findings/inductor_transposes_wrongly.sh). It becomes a part of the command line.
        cpp.march = "native -fno-tree-slp-vectorize"
    plain = _rehearse(run)
    for layer in encoder_layers(run.pair):
        layer.compile(dynamic=False)
    run.compiled = True
    try:
        compiled, problem = _rehearse(run), None
    except Exception as error:  # compilers raise errors of any type
        compiled, problem = [], reason_of(error)
    else:
        largest = max(float(gradient.norm()) for gradient in plain)
        for expected, found in zip(plain, compiled, strict=True):
            # not "larger than": NaN is not
            if not (found - expected).norm() <= MAX_DIFFERENCE * expected.norm() + TINY * largest:
                problem = "compiled, they compute other gradients: the C++ compiler or torch is at fault"
    if problem:
        undo_compilation(run)
    return problem


def undo_compilation(run: RunState) -> None:
    """Undoes `compile_layers`."""
    run.compiled = False
    for layer in encoder_layers(run.pair):
        layer._compiled_call_impl = None  # type: ignore[assignment]


def encoder_layers(pair: Pair) -> Iterator[nn.Module]:
    """Yields the layers of all encoders, including frozen networks."""
    for module in (pair, *pair.frozen.values()):
        for encoder in module.modules():
            if isinstance(encoder, Encoder):
                yield from encoder.get_submodule("layers").children()


def _rehearse(run: RunState) -> list[Tensor]:
    run.pair.train()
    found = []
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of dropout
        for batch in {len(batch.input_ids): batch for batch in run.micro_batches(run.step)}.values():
            arrays = batch.input_ids, batch.position_ids, batch.document_ids
            ids, positions, document_ids = (torch.from_numpy(each).to(run.device) for each in arrays)
            for network in run.pair.named.values():
                with autocast(run.device, run.precision):
                    hidden = network.encoder(ids, positions, document_ids)
                loss = (hidden.float() * torch.randn(hidden.shape).to(run.device)).sum()
                weights = [weight for weight in network.encoder.parameters() if weight.requires_grad]
                gradients = torch.autograd.grad(loss, weights, allow_unused=True)
                found += [gradient for gradient in gradients if gradient is not None]
            for frozen in run.pair.frozen.values():
                with autocast(run.device, run.precision), torch.no_grad():
                    found.append(frozen.encoder(ids, positions, document_ids).float())
    return found
