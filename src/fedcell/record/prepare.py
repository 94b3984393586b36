"""From what a user asked for to what can be run: everything is checked here, before a folder is made."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import methods as library
from .. import options, scenarios
from ..arguments import kind_of
from ..errors import BadInput, FedcellError
from ..learn.model_files import pinned, placeless
from ..learn.tasks import refuse_without_labels
from ..methods import Choice
from ..methods.parts.pairing import absolute, files
from ..scenarios import Config, build_problem
from ..simulate import begin
from ..types import Method, Problem, Snapshot
from . import tree
from .checkpoint import Template
from .folder import FEDERATION, Spec, how_to_resume
from .reading import Record
from .target import refuse_unmeasured

PROBED = 256  # samples in the checksum of a data set
MethodRequest = str | Choice | tuple[str, Method]  # `NAME[:key=value,...]`, read or not, or a label and a method object


class PreparedRun(NamedTuple):
    """One run that is ready to start or to resume."""

    folder: Path
    spec: Spec
    method: Method
    first: Snapshot | None = None  # the state before round 0; None: not made yet


def prepare(
    config: Config,
    asked: Sequence[MethodRequest],
    dataset: Any = None,
    model: Any = None,
    problem: Problem | None = None,
) -> tuple[Problem, list[PreparedRun]]:
    """Build the problem and every method, and begin each; raises BadInput on the first thing that does not fit.

    `problem` is given for a federation, whose devices hold the data. The folders of the jobs are bare names.
    """
    if not asked:
        raise BadInput("no method was named: name at least one (fedcell list methods shows all)")
    config = replace(config, model=pinned(config.model))
    own = tuple(name for name, value in (("model", model), ("dataset", dataset)) if value is not None)
    if problem is not None:
        own = (FEDERATION,)
    problem = problem or build_problem(config, dataset, model)
    task, chance = problem.learner.task.name, None if FEDERATION in own else _chance(problem)
    jobs: list[PreparedRun] = []
    for one in asked:
        spec, method = _one(one, config)
        if spec.label in (job.spec.label for job in jobs):
            raise BadInput(f"method {spec.label!r} is named twice: drop one or give it other settings")
        if method.needs_labels:
            refuse_without_labels(task, f"method {spec.label!r}", "choose another method or task")
        first = begin(problem, method)
        if FEDERATION not in own:  # whose rounds cannot be tried
            refuse_unmeasured(config.until, problem, method, first)
        folder = _free(_slug(spec.label), [job.spec.folder for job in jobs])
        start, written = fingerprint(problem, first), options.to_dict(config)
        spec = spec._replace(
            folder=folder,
            config=written,
            own=own + spec.own,
            start=start,
            scaling=_scaling(problem),
            network=network_facts(problem),
            task=task,
            chance=chance,
        )
        jobs.append(PreparedRun(Path(folder), spec, method, first))
    return problem, jobs


def fingerprint(problem: Problem, first: Snapshot) -> str:
    """A checksum of what a run starts from: first state, frozen parameters, samples from all over, their scaling."""
    samples = problem.learner.train_samples
    x, y = samples.take(np.linspace(0, len(samples) - 1, PROBED).astype(np.int64))
    template = Template.of(first)
    scaling, frozen = _scaling(problem), [one for net in problem.learner.architectures for one in net.frozen()]
    more = ([scaling] if scaling else []) + ([frozen] if frozen else [])
    return tree.digest(*tree.pack((first, x, y, samples.y, *more), *template))


def _scaling(problem: Problem) -> dict[str, Any]:
    """What was done to every input; empty if nothing was."""
    return problem.scaling.record() if problem.scaling else {}


def network_facts(problem: Problem) -> dict[str, Any]:
    """What is needed to build the network again without the data."""
    learner = problem.learner
    return {"input_shape": list(learner.train_samples.shape), "n_classes": learner.n_classes}


def _chance(problem: Problem) -> float:
    """What the best constant answer achieves, in the leading metric of the task."""
    learner = problem.learner
    return learner.task.constant(learner.train_samples.labels, learner.test_samples.labels)


def rebuild(spec: Spec, own: Mapping[str, Method]) -> Method:
    """The method of a recorded run, from its recorded settings or from the caller's own objects."""
    if not spec.source:
        return own[spec.label]
    if spec.sha256 and spec.sha256 != _sha256(spec.source):
        raise FedcellError(f"{spec.source} changed since this run began: restore it, or start a new run with it")
    module = library.load(spec.source)
    method: Method = module.build(options.from_dict(module.Config(), spec.settings))
    return method._replace(name=library.word(spec.source))


def reconfigure(spec: Spec) -> Config:
    """The settings of a recorded run."""
    config: Config = options.from_dict(Config(), spec.config)
    return config


def completed(record: Record) -> Record:
    """The record, completed by settings that fedcell got later, with the values that match the behaviour of that time.

    Settings of a method file stay as they are, since the file is not executed. Raises BadInput for unknown settings.
    """
    config = options.to_dict(options.from_dict(Config(), record.config))
    if not record.settings or record.sha256:
        return record._replace(config=config)
    defaults = library.load(record.method.partition(":")[0]).Config()
    return record._replace(config=config, settings=options.to_dict(options.from_dict(defaults, record.settings)))


def check_own(folder: Path, spec: Spec, dataset: Any, model: Any, own: Mapping[str, Method]) -> None:
    """Refuse to resume unless the caller brings exactly the kinds of own objects that the run began with."""
    if FEDERATION in spec.own:
        raise BadInput(
            f"{folder} is of real devices and cannot be simulated: resume with {how_to_resume(folder, spec.own)}"
        )
    given = {"dataset": dataset is not None, "model": model is not None, "method": spec.label in own}
    missing = [name for name in spec.own if not given[name]]
    extra = [name for name, here in given.items() if here and name not in spec.own]
    if extra:
        raise BadInput(f"{folder} was run without an own {' and '.join(extra)}: drop it, or start a new run")
    if missing:
        raise BadInput(
            f"{folder} was run from Python with an own {' and '.join(missing)}: resume it with "
            f"{how_to_resume(folder, spec.own)}"
        )


def check_same(folder: Path, spec: Spec, config: Config, method: Choice) -> None:
    """Refuse to resume with other settings than those that a run of real devices began with."""
    was, now = (replace(one, model=placeless(one.model)) for one in (reconfigure(spec), config))
    changed = [key for key, _, _ in options.differences(was, now) if key != "until"]
    source = absolute(method.source)
    same = source == spec.source and _sha256(source) == spec.sha256
    if not same or options.differences(options.from_dict(type(method.config)(), spec.settings), method.config):
        changed.append(f"method {method.label!r}")
    if changed:
        raise BadInput(f"{folder} began with another {', '.join(changed)}: set it back, or name another folder")


def _one(asked: MethodRequest, config: Config) -> tuple[Spec, Method]:
    if isinstance(asked, str):
        known = config.scenario in scenarios.names()
        asked = library.parse(asked, scenarios.get(config.scenario).methods if known else {})
    if not isinstance(asked, Choice):
        label, method = _pair(asked)
        return Spec("", label, label, "", "", {}, {}, ("method",), ""), method
    source, settings = absolute(asked.source), options.to_dict(asked.config)
    return Spec("", asked.label, asked.label, source, _sha256(source), settings, {}, (), ""), asked.build()


def own_methods(methods: Sequence[tuple[str, Method]]) -> dict[str, Method]:
    """The methods that a caller resumes with, by label."""
    asked = list(methods) if isinstance(methods, Iterable) else [methods]
    if not all(map(_is_pair, asked)):
        raise BadInput(f"methods is {kind_of(methods)} without labels: give pairs such as [('mine', Method(...))]")
    return dict(asked)


def _is_pair(asked: Any) -> bool:
    """Whether this is a pair of a label and a method, and not a method alone, which is a tuple as well."""
    pair = isinstance(asked, tuple) and not isinstance(asked, Method) and len(asked) == 2
    return pair and isinstance(asked[0], str) and isinstance(asked[1], Method)


def _pair(asked: Any) -> tuple[str, Method]:
    if _is_pair(asked):
        label, method = asked
        return label, method
    fault = "has no name" if isinstance(asked, Method) else "is no method to run"
    raise BadInput(
        f"{kind_of(asked)} {fault}: give a pair such as ('mine', Method(...)), or a text such as "
        "'fedavg:lr=0.1' or './mine.py'"
    )


def _sha256(source: str) -> str:
    """The checksum of the files behind a method and its coding; empty if both are built in."""
    paths = files(source)
    try:
        return sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest() if paths else ""
    except OSError as error:
        raise FedcellError(f"cannot read the method file {error.filename}: {error.strerror}") from None


def _slug(label: str) -> str:
    """A folder name that is readable and safe everywhere.

    >>> _slug("fedprox (mu=0.1, scheduler=best_channel)")
    'fedprox-mu-0.1-scheduler-best_channel'
    """
    return re.sub(r"[^a-z0-9._]+", "-", label.lower()).strip("-.")[:80] or "run"


def _free(slug: str, taken: Sequence[str]) -> str:
    numbered = (f"{slug}-{number}" for number in range(2, len(taken) + 2))
    return slug if slug not in taken else next(name for name in numbered if name not in taken)
