"""Studies: a question, arms tuned alike, paired seeds, an interval and a verdict. Nothing here imports torch.

from lab.studies import Study, Arm, Claim, Tier, find_study, run_study, make_executor
result = run_study(find_study("norm_placement"), "smoke", executor=make_executor("local"))
"""

from lab.studies.catalogue import find_study, study_names
from lab.studies.comparisons import Comparison
from lab.studies.definition import Arm, Budget, Claim, Study, StudyError, Tier
from lab.studies.executors import Executor, ExecutorError, Progress, make_executor
from lab.studies.folder import Job, Outcome, StudyFolder, list_studies, studies_root
from lab.studies.plan import Plan, make_plan
from lab.studies.results import ArmResult, StudyResult, read_results
from lab.studies.run import run_study

__all__ = [
    "Arm",
    "ArmResult",
    "Budget",
    "Claim",
    "Comparison",
    "Executor",
    "ExecutorError",
    "Job",
    "Outcome",
    "Plan",
    "Progress",
    "Study",
    "StudyError",
    "StudyFolder",
    "StudyResult",
    "Tier",
    "find_study",
    "list_studies",
    "make_executor",
    "make_plan",
    "read_results",
    "run_study",
    "studies_root",
    "study_names",
]
