"""Compares the speed of pre-training ELECTRA-Small on random ids with that of a plain transformers loop.

    python benchmarks/pretrain.py [--rounds 3] [--seconds 10] [--batch 32] [--length 128] [--device cpu|cuda]
    [--compiled]

Our side is `speed.py`, the other is `transformers_loop.py`; each runs with the paper's dropout of 0.1
and without dropout.
"""

from __future__ import annotations

from contest import HERE, Contender, compare, options, python


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--size", default="small", choices=["small", "base"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="also run the transformers loop with torch.compile (takes minutes to compile)",
    )
    arguments = parser.parse_args()
    shared = ["--length", arguments.length]
    shared += ["--seconds", arguments.seconds, "--device", arguments.device]
    contenders = []
    for dropout in (0.1, 0.0):
        for precision in ("fp32", "bf16"):
            settings = ["--precision", precision, "--dropout", dropout, "--size", arguments.size]
            settings += ["--batch", arguments.batch, *shared]
            reference = python(HERE / "transformers_loop.py", *settings)
            contenders.append(Contender(f"transformers, {precision}, dropout {dropout}", reference))
            if arguments.compiled and precision == "bf16":
                contenders.append(
                    Contender(f"transformers, bf16, compiled, dropout {dropout}", [*reference, "--compile"])
                )
        ours = [HERE / "speed.py", "--recipe", f"paper-{arguments.size}", "--vocab-size", 30522]
        ours += ["--batch-size", arguments.batch, "--dropout", dropout, *shared, "--precision", "bf16"]
        contenders.append(Contender(f"electra, bf16, dropout {dropout}", python(*ours)))
        if arguments.device == "cpu":
            two = python("-m", "torch.distributed.run", "--nproc-per-node", 2, *ours)
            contenders.append(Contender(f"electra, bf16, 2 processes, dropout {dropout}", two))
    name, baseline = f"pretrain-{arguments.size}-{arguments.length}", "transformers, fp32, dropout 0.1"
    rates = {"rate": "tokens_per_s_median", "unit": "tokens/s", "baseline": baseline}
    result = compare(name, contenders, arguments, **rates)
    for contender, row in result["contenders"].items():
        turn = row["turns"][-1]
        mfu = f", {turn['mfu']:.0%} of the matrix-product rate" if "mfu" in turn else ""
        print(f"{contender:36} peak {turn['peak_rss_mib']:,} MiB{mfu}")


if __name__ == "__main__":
    main()
