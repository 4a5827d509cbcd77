"""Writes the mean of the weights of models of one shape that started from the same weights (Wortsman et al. 2022).

python mean.py OUT MODEL MODEL ...
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

out, *models = map(Path, sys.argv[1:])
weights = [load_file(model / "model.safetensors") for model in models]
mean = {name: sum(each[name].float() for each in weights) / len(weights) for name in weights[0]}
shutil.copytree(models[0], out)
save_file(mean, out / "model.safetensors", metadata={"format": "pt"})
