#!/usr/bin/env bash
# scikit-learn 1.9.1: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto") with many classes of few examples, as
# vectors of an encoder with ten texts a label.
#
# Expected: the model has one covariance for all classes, so its shrinkage is estimated from the deviations of all rows
# from their class's mean: with 400 rows in 100 dimensions little, and more rows of other classes help.
# Seen: the shrinkage is estimated in each class alone, from its ten rows, and the shrunk covariances are averaged: it is
# many times as strong. On data made by the model's own assumptions (40 normal classes, one covariance) the accuracy is
# .258; with the same formula (Ledoit and Wolf) on all deviations .957, and with shrinkage=.003 .999. There is no warning,
# and covariance_estimator=LedoitWolf() is used in the same way.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6
cat > try.py <<'EOF'
import sys

import numpy as np
import sklearn
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA

print("scikit-learn", sklearn.__version__)
classes, each, width = 40, 10, 100
rng = np.random.default_rng(0)
mix = np.diag(np.geomspace(3, 0.1, width)) @ np.linalg.qr(rng.normal(size=(width, width)))[0]
means = rng.normal(size=(classes, width)) * 0.25


def draw(count):
    labels = np.repeat(np.arange(classes), count)
    return means[labels] + rng.normal(size=(len(labels), width)) @ mix, labels


(x, y), (test_x, test_y) = draw(each), draw(200)
automatic = LDA(solver="lsqr", shrinkage="auto").fit(x, y).score(test_x, test_y)
estimator = LDA(solver="lsqr", covariance_estimator=LedoitWolf()).fit(x, y).score(test_x, test_y)
fixed = LDA(solver="lsqr", shrinkage=0.003).fit(x, y).score(test_x, test_y)
centres = np.stack([x[y == label].mean(0) for label in range(classes)])
pooled = LedoitWolf(assume_centered=True).fit(x - centres[y])
weights = np.linalg.solve(pooled.covariance_, centres.T).T
by_hand = np.mean((test_x @ weights.T - (centres * weights).sum(1) / 2).argmax(1) == test_y)
alone = np.mean([LedoitWolf().fit(x[y == label]).shrinkage_ for label in range(classes)])
print(f"shrinkage: all rows {pooled.shrinkage_:.2f}, the mean of single classes {alone:.2f}")
print(f"accuracy: auto {automatic:.3f}, LedoitWolf() {estimator:.3f}, all rows {by_hand:.3f}, 0.003 {fixed:.3f}")
sys.exit(0 if automatic < 0.5 and by_hand > 0.9 and fixed > 0.9 else 1)
EOF
OMP_NUM_THREADS=1 venv/bin/python try.py
