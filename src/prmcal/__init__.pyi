"""The names that `prmcal` has, for type checkers and editors. `__init__.py` loads each when it is first used."""

from prmcal.harness.audit.audit import audit as audit
from prmcal.harness.audit.saved import load_calibrator as load_calibrator
from prmcal.harness.cluster.nodes import ClusterSettings as ClusterSettings
from prmcal.harness.inference.calibrated_prm import CalibratedPRM as CalibratedPRM
from prmcal.harness.inference.loading import load as load
from prmcal.harness.inference.results import PrefixRewards as PrefixRewards
from prmcal.harness.inference.results import Solution as Solution
from prmcal.harness.inference.results import Trajectory as Trajectory
from prmcal.harness.notebook import Run as Run
from prmcal.harness.notebook import open_run as open_run
from prmcal.harness.notebook import run as run
from prmcal.harness.planning.grid import GridSpec as GridSpec
from prmcal.registry.contracts.calibrator import Calibrator as Calibrator
from prmcal.registry.contracts.calibrator import FitSupport as FitSupport
from prmcal.registry.contracts.calibrator import ScoredPrefixes as ScoredPrefixes
from prmcal.registry.contracts.data import Completion as Completion
from prmcal.registry.contracts.data import GenerationRequest as GenerationRequest
from prmcal.registry.contracts.data import HiddenStates as HiddenStates
from prmcal.registry.contracts.data import Prefix as Prefix
from prmcal.registry.contracts.data import PrefixScores as PrefixScores
from prmcal.registry.contracts.data import Question as Question
from prmcal.registry.contracts.data import Sampling as Sampling
from prmcal.registry.contracts.data import ScoringRequest as ScoringRequest
from prmcal.registry.contracts.dataset import Dataset as Dataset
from prmcal.registry.contracts.grader import Graded as Graded
from prmcal.registry.contracts.grader import Grader as Grader
from prmcal.registry.contracts.grader import GradingRequest as GradingRequest
from prmcal.registry.contracts.metric import AbsoluteSum as AbsoluteSum
from prmcal.registry.contracts.metric import Metric as Metric
from prmcal.registry.contracts.metric import PrefixRows as PrefixRows
from prmcal.registry.contracts.metric import QuestionRatio as QuestionRatio
from prmcal.registry.contracts.models import LLM as LLM
from prmcal.registry.contracts.models import PRM as PRM
from prmcal.registry.contracts.pool import Pool as Pool
from prmcal.registry.contracts.strategy import Allowance as Allowance
from prmcal.registry.contracts.strategy import Answered as Answered
from prmcal.registry.contracts.strategy import PoolStrategy as PoolStrategy
from prmcal.registry.contracts.strategy import SearchStrategy as SearchStrategy
from prmcal.registry.plugins import calibrator as calibrator
from prmcal.registry.plugins import dataset as dataset
from prmcal.registry.plugins import grader as grader
from prmcal.registry.plugins import llm as llm
from prmcal.registry.plugins import metric as metric
from prmcal.registry.plugins import prm as prm
from prmcal.registry.plugins import strategy as strategy
from prmcal.registry.prms.judge import JudgePRM as JudgePRM
from prmcal.registry.prms.transformers import TransformersPRM as TransformersPRM
from prmcal.registry.strategies.aggregation import read_steps as read_steps
from prmcal.registry.strategies.sequential import Drawn as Drawn
from prmcal.registry.strategies.sequential import Outcome as Outcome
from prmcal.registry.strategies.sequential import SequentialRule as SequentialRule
from prmcal.registry.strategies.sequential import first_at_least as first_at_least

__version__: str
__all__: list[str]
_HOME: dict[str, str]
