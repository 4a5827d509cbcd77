#!/usr/bin/env bash
# What made this folder. DATA: the corpora and task data; OUT: runs/fourth-light holds rtd and mlm of ../2026-11-21-cola-with-six-seeds.
set -euo pipefail
DATA=${DATA:-../shared/data} OUT=${OUT:-runs}
export OMP_NUM_THREADS=1
cd "$(dirname "$0")/../.."
DATA=$(realpath "$DATA") OUT=$(realpath "$OUT") program=$(realpath .venv/bin/electra)
electra() { "$program" "$@"; }
rtd=$OUT/fourth-light/rtd mlm=$OUT/fourth-light/mlm

# A masked language model of equal FLOPs beside the discriminator; who looks for the same token
electra analyze $rtd $mlm --probe errors --probe matching --data "$DATA" --out "$OUT/probes"

# Two trainings of each: what is the objective's and what the seed's
electra analyze $rtd $rtd-2 $mlm $mlm-2 --probe matching --probe layer_similarity --probe linear_probes --probe errors --data "$DATA" --out "$OUT/probes-two"

# Without the heads that look for the same token, and without two others
for name in cut control; do
    heads="1.1 2.1"
    [ $name = control ] && heads="1.2 2.2"
    .venv/bin/python results/2026-11-22-what-it-knows/cut_heads.py $rtd/discriminator "$OUT/rtd-$name" $heads
    electra finetune "$OUT/rtd-$name" --task stsb --data "$DATA/glue/sts-b" --out "$OUT/stsb-$name" --limit-train 1500
done

# The same of the second training, which has one such head
for name in cut control; do
    head=2.1
    [ $name = control ] && head=2.2
    .venv/bin/python results/2026-11-22-what-it-knows/cut_heads.py $rtd-2/discriminator "$OUT/rtd-2-$name" $head
    electra finetune "$OUT/rtd-2-$name" --task stsb --data "$DATA/glue/sts-b" --out "$OUT/stsb-2-$name" --limit-train 1500
done

# German
electra prepare "$DATA/corpora/dewiki.jsonl.zst" --out "$OUT/destore" --vocab-size 8192 --no-lowercase
electra pretrain --store "$OUT/destore" --out "$OUT/de" --recipe budget-tiny --training.threads 1 --training.log-every 20 --evaluation.rows 512 \
    --training.compile on --training.precision fp32 --budget 12Mtokens
electra finetune "$OUT/de/discriminator" --task ged --data "$DATA/ged/falko-merlin-de" --out "$OUT/de-ged" --limit-train 4000
electra analyze "$OUT/de" --probe errors --probe-option language=de --probe-option detector="$OUT/de-ged" --data "$DATA" --out "$OUT/probes-de"

# matching-de (de-mlm: ../2026-11-22-better-than-mlm-on-tasks/commands.sh): STS-B in German, with a first line "sentence1 sentence2 score" and tabs, as sts-b/dev.tsv
electra analyze "$OUT/de" "$OUT/de-mlm" --probe matching --data "$OUT/sts-b-de" --out "$OUT/probes-de"

# matching-ko (ko, ko-mlm: ../2026-11-22-better-than-mlm-on-tasks/commands.sh)
electra analyze "$OUT/ko" "$OUT/ko-mlm" --probe matching --data "$DATA/tasks-ko/korsts/dev.tsv.gz" --out "$OUT/probes-ko"

# Over training
over() { electra analyze "$1" --over-training --data "$DATA" --out "$OUT/over-$(basename "$1")" "${@:2}"; }
over $rtd --probe errors --probe-option sentences=800 --probe-option resamples=100
over $rtd --data "$OUT/store" --probe generators --probe-option rows=64 --probe-option sentences=400 --probe-option resamples=50
for run in $rtd $mlm; do
    over $run --probe linear_probes
done
for run in $rtd $mlm $rtd-2 $mlm-2; do
    over $run --probe matching --probe-option sentences=200 --probe-option resamples=100 --probe-option untrained=false
done

# Generators of other sizes and kinds, a second seed, and MLM: 5e13 FLOPs each (../2026-11-22-how-wide-a-generator)
study() { electra ablate generator-size --budget 5e13flops --threads 1 --store "$OUT/store" --recipe results/2026-11-22-how-wide-a-generator/recipe-4x128.toml --panel-data "$DATA" --out "$OUT/generator-size" "$@"; }
study --arm width-0.25 --arm width-1 --arm unigram --arm mlm --seeds 1
study --arm width-0.25 --seed 2 --seeds 1
cd "$OUT/generator-size"
for arm in width-0.25 width-1 unigram mlm; do ln -sfn "arms/$arm/seed-1" "$arm"; done
ln -sfn arms/width-0.25/seed-2 width-0.25-again
electra analyze width-0.25 width-1 unigram mlm --probe generators --data "$DATA" --data "$OUT/store" --out "$OUT/probes-generators"
electra analyze width-0.25 width-0.25-again width-1 unigram mlm --probe layer_similarity --probe matching \
    --data "$DATA" --out "$OUT/probes-generators"
