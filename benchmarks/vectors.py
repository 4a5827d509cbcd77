"""Compares the speed of embedding or classifying sentences with transformers and sentence-transformers.

    python benchmarks/vectors.py embed [--sentences 2000] [--rounds 3]
    python benchmarks/vectors.py predict

The model is tiny-en; for `predict` it is fine-tuned briefly. All sides start from sentences of mixed length
and compute in fp32. The largest difference from the padded transformers loop is printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from contest import Contender, compare, options, python, timed
from detect import read_sentences

Score = Callable[[], Any]


def embed(side: str, model: str, texts: list[str]) -> Score:
    if side == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        encoder = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": "float32"})
        return lambda: encoder.encode(texts)
    if side == "transformers":
        return loop(model, texts, "AutoModel", pooled)
    from electra.inference.model import load

    opened = load(model, device="cpu", backend="torch" if side == "electra" else "onnx")
    _ = opened.encoder
    return lambda: opened.embed(texts)


def predict(side: str, model: str, texts: list[str]) -> Score:
    if side == "transformers":
        return loop(f"{model}/model", texts, "AutoModelForSequenceClassification", probabilities)
    from electra.finetuning.predict import open_predictor

    predictor = open_predictor(model, "cpu", "torch" if side == "electra" else "onnx")
    return lambda: np.stack(predictor.texts(texts).values)


def pooled(output: Any, mask: Any) -> Any:
    weights = mask.unsqueeze(-1)
    return (output.last_hidden_state * weights).sum(1) / weights.sum(1)


def probabilities(output: Any, mask: Any) -> Any:
    return output.logits.softmax(-1)


def loop(model: str, texts: list[str], kind: str, result: Callable[[Any, Any], Any]) -> Score:
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = getattr(transformers, kind).from_pretrained(model).float().eval()

    def score() -> Any:
        results = []
        for first in range(0, len(texts), 32):
            batch = tokenizer(texts[first : first + 32], padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                results.append(result(network(**batch), batch["attention_mask"]).numpy())
        return np.concatenate(results)

    return score


def tune(folder: Path, texts: list[str]) -> str:
    from electra.finetuning.settings import Settings
    from electra.finetuning.train.all_seeds import finetune

    rows = [json.dumps({"text": text, "label": str(len(text) > 100)}) for text in texts[:400]]
    (folder / "train.jsonl").write_text("\n".join(rows))
    settings = Settings(task="classification", data=folder / "train.jsonl", out=folder / "tuned", epochs=1)
    finetune("tiny-en", settings)
    return str(folder / "tuned")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("task", choices=["embed", "predict"])
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--scores", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    texts = read_sentences(arguments.sentences)
    work = {"embed": embed, "predict": predict}[arguments.task]
    if arguments.side:
        results, timing = timed(work(arguments.side, arguments.model, texts), len(texts))
        np.save(arguments.scores, results)
        print(json.dumps(timing))
        return
    with tempfile.TemporaryDirectory() as name:
        from electra.artifacts.included import MODELS
        from electra.commands.export import export

        folder = Path(name)
        model = str(MODELS / "tiny-en" / "discriminator") if arguments.task == "embed" else tune(folder, texts)
        models = {"transformers": model, "electra": model}
        if arguments.task == "embed":
            models["sentence-transformers"] = model
        models["onnx"] = str(folder / "onnx")
        export(model, out=models["onnx"], format="onnx")
        contenders = [
            Contender(
                side,
                python(
                    __file__, arguments.task, f"--sentences={len(texts)}", f"--side={side}",
                    f"--model={models[side]}", f"--scores={folder / side}.npy",
                ),
            )
            for side in models
        ]  # fmt: skip
        rates = {"rate": "sentences_per_s", "unit": "sentences/s", "baseline": "transformers"}
        compare(arguments.task, contenders, arguments, **rates)
        expected = np.load(folder / "transformers.npy")
        for side in list(models)[1:]:
            other = np.load(folder / f"{side}.npy")
            close = f"{side}: largest difference {np.abs(expected - other).max():.1e}"
            same = f"; {(expected.argmax(1) == other.argmax(1)).mean():.2%} of the labels agree"
            print(close + (same if arguments.task == "predict" else ""))


if __name__ == "__main__":
    main()
