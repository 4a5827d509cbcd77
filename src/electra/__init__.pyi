# Made by docs/site/make_cli.py.
from electra.commands.ablate import ablate as ablate
from electra.commands.analyze import analyze as analyze
from electra.commands.detect import detect as detect
from electra.commands.distil import distil as distil
from electra.commands.embed import embed as embed
from electra.commands.evaluate import evaluate as evaluate
from electra.commands.export import export as export
from electra.commands.extend import extend as extend
from electra.commands.finetune import finetune as finetune
from electra.commands.predict import predict as predict
from electra.commands.prepare import prepare as prepare
from electra.commands.pretrain import pretrain as pretrain
from electra.commands.report import report as report
from electra.commands.results.result_folders import Analysis as Analysis
from electra.commands.results.result_folders import Evaluation as Evaluation
from electra.commands.results.result_folders import FineTuned as FineTuned
from electra.commands.results.result_folders import Run as Run
from electra.commands.results.result_folders import Store as Store
from electra.commands.results.result_folders import Study as Study
from electra.commands.results.result_folders import open as open
from electra.commands.serve import serve as serve
from electra.commands.show import show as show
from electra.commands.verify import verify as verify
from electra.foundation.errors import ElectraError as ElectraError
from electra.foundation.errors import Interrupted as Interrupted
from electra.foundation.extensions import trust as trust
from electra.inference.model import Model as Model
from electra.inference.model import load as load

__version__: str
__all__: list[str]
