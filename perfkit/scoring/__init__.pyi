"""Scores of the methods that infer."""

from .evidence import Evidence as Evidence
from .importances import importance_scores as importance_scores
from .ranks import RankScore as RankScore
from .ranks import rank_score as rank_score
from .roofs import roof_scores as roof_scores
from .scores import Scores as Scores
from .spire import spire_scores as spire_scores
from .spire import topdown_scores as topdown_scores
from .stacks import stack_scores as stack_scores
