"""Types of NumPy arrays by dtype; docstrings give the shapes."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Vectors: TypeAlias = npt.NDArray[np.float32]
