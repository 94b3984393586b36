"""How Tables II to V are judged: one function per kind of claim. `osafl_setting` has the rules of comparison."""

from collections.abc import Mapping, Sequence

import numpy as np
import osafl_setting as setting
from osafl_plots import table

from fedcell.experiment import Claim, Experiment, Finding, Row, SideBySide, beside, finding, percent
from fedcell.experiment.judging import Measure, Part, gap, inside, near, ratio, spread, told, wider, within

Printed = Mapping[str, Mapping[str, tuple[float, float]]]  # model -> method -> (best accuracy, loss there)

IMAGES = ("fcn", "squeezenet", "cnn")
SEVEN = ("central", "osafl", "m_fedavg", "m_afa_cd", "m_fednova", "m_fedprox", "m_feddisco")
SHARE = 0.05  # of the ceiling
GENIE = 0.01
BELOW, ABOVE = 0.02, 0.005  # the ceiling on the test set
ONE_FILE = 0.01  # above the share of the commonest file
COLLAPSED_LOSS, LOSS_NEAR = np.log(setting.N_FILES), 0.05
RATIO_NEAR, LOSS_RATIO_NEAR = 0.2, 0.08  # relative; absolute
LOSS_POINTS = 0.15  # nats, of a printed loss less the genie's
NORMED = "squeezenet_bn"  # K = 1 alone


def printed_words(printed: Printed) -> str:
    """The table as the paper has it."""
    return "; ".join(
        f"{setting.MODELS[model].title}: "
        + ", ".join(
            f"{setting.TITLES[name].removesuffix(' (retuned)')} {a:.4f} / {b:.4f}" for name, (a, b) in own.items()
        )
        for model, own in printed.items()
    )


def ours(rows: Sequence[Row], models: Sequence[str], k: int) -> str:
    """The table as it was measured: best accuracy, loss there, number of seeds, and the ceiling of the draw."""
    parts = []
    for model in (one for one in models if setting.ran(rows, one, k)):
        cells = []
        for entry, title in setting.TITLES.items():
            name = setting.key(model, k, entry)
            if setting.of_case(rows, name):
                loss = spread(setting.values(rows, name, setting.loss_at_best))
                cells.append(f"{title} {spread(setting.values(rows, name))} / {loss}")
        own = [row for row in rows if row["case"].startswith(f"{model} ")]
        seeds = len({row["seed"] for row in own})
        parts.append(
            f"{setting.MODELS[model].title} ({seeds} seed{'s' * (seeds > 1)}): {', '.join(cells)}; "
            f"{setting.told_ceiling(own, k)}"
        )
    return "; ".join(parts)


def side_by_side(rows: Sequence[Row], models: Sequence[str], k: int, printed: Printed) -> SideBySide:
    """The table of the paper with the measured one beside it: best accuracy and the loss there."""
    columns = {}
    for model in models:
        cells = {}
        for entry, title in setting.TITLES.items():
            accuracy, loss = printed[model][setting.printed_as(entry)]
            name = setting.key(model, k, entry)
            here = f"{told(rows, name, setting.best)} / {told(rows, name, setting.loss_at_best, 2)}"
            if setting.of_case(rows, name):
                cells[title] = (f"{percent(accuracy)} / {loss:.2f}", here)
        own = [row for row in rows if row["case"].startswith(f"{model} ")]
        if own:
            cells["best possible"] = ("", setting.told_limit(own, k))
        columns[setting.MODELS[model].title] = cells
    return beside("best accuracy / loss there", columns)


# ---------------------------------------------------------------- Dataset-1


def order_images(rows: Sequence[Row], k: int, nova: str, claim: str, models: Sequence[str] = IMAGES) -> Finding:
    """OSAFL >= M-FedNova > {M-FedAvg ~ M-FedDisco} > M-FedProx >> M-AFA-CD, for every model."""
    parts: list[Part] = []
    for model in models:
        pairs = setting.Pairs(rows, model, k)
        parts += [
            pairs.not_behind("osafl", nova),
            pairs.ahead(nova, "m_fedavg"),
            pairs.ahead(nova, "m_feddisco"),
            pairs.near("m_fedavg", "m_feddisco"),
            pairs.ahead("m_fedavg", "m_fedprox"),
            pairs.ahead("m_feddisco", "m_fedprox"),
            pairs.far("m_fedprox", "m_afa_cd"),
        ]
    return finding(claim, parts, ours(rows, models, k), f"best accuracy, with {setting.TITLES[nova]}")


def genie(rows: Sequence[Row], k: int) -> Finding:
    parts = [setting.Pairs(rows, model, k).not_behind("osafl", "central", GENIE) for model in IMAGES]
    return finding("genie", parts, "", f"at most {GENIE} behind")


def shrink(rows: Sequence[Row], k: int) -> Finding:
    """The lead of OSAFL over each baseline is smaller with the CNN than with the FCN."""
    fcn, cnn = (setting.Pairs(rows, model, k) for model in ("fcn", "cnn"))
    parts = [
        wider(
            rows,
            (fcn.key("osafl"), fcn.key(entry)),
            (cnn.key("osafl"), cnn.key(entry)),
            setting.best,
            f"over {setting.TITLES[entry]}",
        )
        for entry in ("m_fedavg", "m_feddisco", "m_fedprox", "m_fednova", "m_afa_cd")
    ]
    return finding("shrink", parts, "", "lead of OSAFL with the FCN minus that with the CNN")


def squeeze_loss(rows: Sequence[Row], k: int) -> Finding:
    part = setting.Pairs(rows, "squeezenet", k).below("m_fednova", "osafl", setting.loss_at_best)
    return finding("squeeze_loss", part, "", "loss where the accuracy is best")


def collapse(rows: Sequence[Row], models: Sequence[str], k: int) -> Finding:
    """M-AFA-CD names one file whatever it sees: accuracy that of a file's share, loss that of knowing nothing."""
    parts, words = [], []
    for model in models:
        name, title = setting.key(model, k, "m_afa_cd"), setting.MODELS[model].title
        over = setting.values(rows, name, lambda row: setting.best(row) - setting.ceiling(k, row["seed"]).one_file)
        loss = setting.values(rows, name, setting.loss_at_best)
        parts.append(inside(f"{title} accuracy", over, high=ONE_FILE, unit="points"))
        if model in IMAGES:  # the published loss of the LSTM is lower, as if its biases had learned
            parts.append(inside(f"{title} loss", loss, low=COLLAPSED_LOSS - LOSS_NEAR))
        words.append(f"{title} {spread(setting.values(rows, name))} / {spread(loss)}")
    rule = f"accuracy at most {ONE_FILE} above the commonest file; Dataset-1: loss at least ln 100 - {LOSS_NEAR}"
    return finding("collapse", parts, "; ".join(words), rule)


def plateau(rows: Sequence[Row], models: Sequence[str], k: int, reach: bool) -> Finding:
    """Nobody above the ceiling of the data; if asked, the genie and OSAFL reach it."""
    parts: list[Part] = []
    for model in models:
        title = setting.MODELS[model].title
        for entry in setting.TITLES:
            over = setting.values(
                rows,
                setting.key(model, k, entry),
                lambda row: setting.best(row) - setting.ceiling(k, row["seed"]).on_test,
            )
            if len(over) or entry in ("central", "osafl"):
                parts.append(inside(f"{title} {setting.TITLES[entry]} not above", over, high=ABOVE, unit="points"))
            if reach and entry in ("central", "osafl"):
                parts.append(inside(f"{title} {setting.TITLES[entry]} reaches it", over, low=-BELOW, unit="points"))
    rule = f"best accuracy at most {ABOVE} above the best predictor on the same test set" + (
        f"; genie and OSAFL at most {BELOW} below it" if reach else ""
    )
    return finding("plateau", parts, "", rule)


def shares(rows: Sequence[Row], models: Sequence[str], k: int, printed: Printed, nova: str, claim: str) -> Finding:
    """The printed numbers, each as a share of the ceiling, since every draw of users has a ceiling of its own."""
    top = {1: 0.6630, 2: 0.3441}[k]  # the best of Table II and of Table III
    parts = [
        near(
            rows,
            setting.key(model, k, nova if entry == "m_fednova" else entry),
            printed[model][entry][0] / top,
            SHARE,
            lambda row: setting.best(row) / setting.ceiling(k, row["seed"]).on_test,
            f"{setting.MODELS[model].title} {setting.TITLES[entry].partition(' (')[0]}",
        )
        for model in models
        for entry in SEVEN
    ]
    rule = f"share of the ceiling within {SHARE} of the printed one, {setting.TITLES[nova]}"
    return finding(claim, parts, ours(rows, models, k), rule)


def losses(rows: Sequence[Row], models: Sequence[str], k: int, printed: Printed, nova: str) -> Finding:
    """Losses where the accuracy is best, less the genie's on the same seed: its own depends on the draw."""
    parts = []
    for model in models:
        own = printed[model]
        for entry in SEVEN[1:]:
            name = setting.key(model, k, nova if entry == "m_fednova" else entry)
            behind = gap(rows, name, setting.key(model, k, "central"), setting.loss_at_best)
            title = f"{setting.MODELS[model].title} {setting.TITLES[entry].partition(' (')[0]}"
            parts.append(within(title, behind, own[entry][1] - own["central"][1], LOSS_POINTS))
    rule = f"loss minus the genie's within {LOSS_POINTS} of the printed difference, {setting.TITLES[nova]}"
    return finding("losses", parts, "", rule)


# ---------------------------------------------------------------- Dataset-2


def order_history(rows: Sequence[Row], k: int, nova: str, claim: str) -> Finding:
    """Genie >> OSAFL >> M-FedAvg >~ M-FedDisco > M-FedProx > M-FedNova > M-AFA-CD."""
    pairs = setting.Pairs(rows, "lstm", k)
    parts = [
        pairs.far("central", "osafl"),
        pairs.far("osafl", "m_fedavg"),
        pairs.not_behind("m_fedavg", "m_feddisco"),
        pairs.ahead("m_feddisco", "m_fedprox"),
        pairs.ahead("m_fedprox", nova),
        pairs.ahead(nova, "m_afa_cd"),
    ]
    return finding(claim, parts, ours(rows, ["lstm"], k), f"best accuracy, with {setting.TITLES[nova]}")


def ratios(rows: Sequence[Row], k: int, accuracy: float, loss: float) -> list[Finding]:
    """OSAFL over the second best federated method, with published rates; the retuned M-FedNova beside it."""
    others = ("m_fedavg", "m_feddisco", "m_fedprox", setting.PUBLISHED, "m_afa_cd")
    if not setting.ran(rows, "lstm", k, ("osafl", *others)):
        return []
    pairs = setting.Pairs(rows, "lstm", k)

    def mean(entry: str, value: Measure = setting.best) -> float:
        return float(setting.values(rows, pairs.key(entry), value).mean())

    second, least = max(others, key=mean), min(others, key=lambda entry: mean(entry, setting.loss_at_best))
    rival = max((entry for entry in others if entry != setting.PUBLISHED), key=mean)
    times = ratio(rows, pairs.key("osafl"), pairs.key(second), setting.best)
    lost = ratio(rows, pairs.key("osafl"), pairs.key(least), setting.loss_at_best)
    retuned = ratio(rows, pairs.key("osafl"), pairs.key(setting.RETUNED), setting.best)
    beside = f"{spread(times, 2)} times {setting.TITLES[second]}; {spread(retuned, 2)} times the retuned M-FedNova"
    return [
        finding(
            "ratio",
            within(f"OSAFL / {setting.TITLES[second]}", times, accuracy, RATIO_NEAR * accuracy),
            beside,
            f"within {RATIO_NEAR:.0%} of the printed ratio",
        ),
        finding(
            "loss_ratio",
            within(f"OSAFL / {setting.TITLES[least]}", lost, loss, LOSS_RATIO_NEAR),
            "",
            f"within {LOSS_RATIO_NEAR} of the printed ratio",
        ),
        finding("second", pairs.ahead(rival, setting.PUBLISHED), beside, "another one is ahead of M-FedNova"),
    ]


# ---------------------------------------------------------------- claims


def image_claims(k: int, printed: Printed) -> tuple[Claim, ...]:
    """What Table II (K = 1) or III (K = 2) says."""
    numbers = printed_words(printed)
    gap = ", ".join(
        f"{setting.MODELS[model].title} {own['central'][0] - own['osafl'][0]:+.4f}" for model, own in printed.items()
    )
    lead = ", ".join(
        f"{setting.TITLES[entry].partition(' (')[0]} {printed['fcn']['osafl'][0] - printed['fcn'][entry][0]:+.4f} to "
        f"{printed['cnn']['osafl'][0] - printed['cnn'][entry][0]:+.4f}"
        for entry in ("m_fedavg", "m_feddisco", "m_fedprox", "m_fednova", "m_afa_cd")
    )
    order = "OSAFL >= M-FedNova > {M-FedAvg ~ M-FedDisco} > M-FedProx >> M-AFA-CD with every model"
    return (
        Claim("order", f"{order}; M-FedNova retuned", numbers),
        Claim("order_published", f"{order}; M-FedNova with its published rates", "as above"),
        Claim("genie", "OSAFL is about as good as the genie with every model", f"genie minus OSAFL: {gap}"),
        Claim("shrink", "the lead of OSAFL shrinks from FCN to CNN", f"lead, FCN to CNN: {lead}"),
        Claim(
            "squeeze_loss",
            "with SqueezeNet1 M-FedNova has a lower loss than OSAFL",
            f"{printed['squeezenet']['m_fednova'][1]:.4f} against {printed['squeezenet']['osafl'][1]:.4f}",
        ),
        Claim(
            "collapse",
            "M-AFA-CD learns nothing with FCN and SqueezeNet1",
            ", ".join(
                f"{printed[model]['m_afa_cd'][0]:.4f} / {printed[model]['m_afa_cd'][1]:.4f}" for model in IMAGES[:2]
            ),
        ),
        Claim("plateau", "the best methods end at the ceiling of the data, none above", f"K = {k}: see the genie"),
        Claim("values", "best accuracy of every method, as a share of the ceiling", "as above"),
        Claim("values_published", "the same, M-FedNova with its published rates", "as above"),
        Claim(
            "losses", "loss of every method where its accuracy is best, less the genie's", "behind the accuracies above"
        ),
        *(
            (
                Claim("order_norm", "the order with batch norm in SqueezeNet1", "as above"),
                Claim("values_norm", "the shares of the ceiling with batch norm in SqueezeNet1", "as above"),
            )
            if k == 1
            else ()
        ),
    )


def check_images(rows: list[Row], k: int, printed: Printed) -> list[Finding]:
    return [
        order_images(rows, k, setting.RETUNED, "order"),
        order_images(rows, k, setting.PUBLISHED, "order_published"),
        genie(rows, k),
        shrink(rows, k),
        squeeze_loss(rows, k),
        collapse(rows, IMAGES[:2], k),
        plateau(rows, IMAGES, k, reach=True),
        shares(rows, IMAGES, k, printed, setting.RETUNED, "values"),
        shares(rows, IMAGES, k, printed, setting.PUBLISHED, "values_published"),
        losses(rows, IMAGES, k, printed, setting.RETUNED),
        *(_normed(rows, k, printed) if k == 1 else ()),
    ]


def _normed(rows: list[Row], k: int, printed: Printed) -> list[Finding]:
    """Two claims again with batch norm in SqueezeNet1."""
    own = {NORMED: printed["squeezenet"]}
    return [
        order_images(rows, k, setting.RETUNED, "order_norm", [NORMED]),
        shares(rows, [NORMED], k, own, setting.RETUNED, "values_norm"),
    ]


def history_claims(k: int, printed: Printed, accuracy: float, loss: float) -> tuple[Claim, ...]:
    """What Table IV (K = 1) or V (K = 2) says."""
    order = "genie >> OSAFL >> M-FedAvg >~ M-FedDisco > M-FedProx > M-FedNova > M-AFA-CD"
    afa = printed["lstm"]["m_afa_cd"]
    return (
        Claim("order", f"{order}; M-FedNova with its published rates", printed_words(printed)),
        Claim("order_retuned", f"{order}; M-FedNova retuned", "as above"),
        Claim("ratio", "accuracy of OSAFL over that of the second best federated method", f"{accuracy:g} times"),
        Claim("loss_ratio", "loss of OSAFL over the least of the other federated methods", f"{loss:g} times"),
        Claim("second", "M-FedNova, second best on Dataset-1, is no longer second", "second is M-FedAvg"),
        Claim("collapse", "M-AFA-CD learns nothing", f"{afa[0]:.4f} / {afa[1]:.4f}"),
        Claim(
            "plateau",
            "no method is above the ceiling of the data",
            f"genie {printed['lstm']['central'][0]:.4f}",
            "check",
        ),
        Claim("values", "best accuracy of every method, as a share of the ceiling", "as above"),
        Claim("values_retuned", "the same, M-FedNova retuned", "as above"),
        Claim(
            "losses", "loss of every method where its accuracy is best, less the genie's", "behind the accuracies above"
        ),
    )


def check_history(rows: list[Row], k: int, printed: Printed, accuracy: float, loss: float) -> list[Finding]:
    return [
        order_history(rows, k, setting.PUBLISHED, "order"),
        order_history(rows, k, setting.RETUNED, "order_retuned"),
        *ratios(rows, k, accuracy, loss),
        collapse(rows, ("lstm",), k),
        plateau(rows, ("lstm",), k, reach=False),
        shares(rows, ("lstm",), k, printed, setting.PUBLISHED, "values"),
        shares(rows, ("lstm",), k, printed, setting.RETUNED, "values_retuned"),
        losses(rows, ("lstm",), k, printed, setting.PUBLISHED),
    ]


# ---------------------------------------------------------------- a whole table


def image_table(title: str, k: int, printed: Printed) -> Experiment:
    """A table on Dataset-1."""
    return Experiment(
        title=title,
        claims=image_claims(k, printed),
        cases=lambda quick: setting.table_cases((*IMAGES, NORMED) if k == 1 else IMAGES, [k], quick),
        plot=lambda rows: table(rows, (*IMAGES, NORMED), k, {**printed, NORMED: printed["squeezenet"]}),
        check=lambda rows: check_images(rows, k, printed),
        store=setting.STORE,
        table=lambda rows: side_by_side(rows, IMAGES, k, printed),
    )


def history_table(title: str, k: int, printed: Printed, accuracy: float, loss: float) -> Experiment:
    """A table on Dataset-2, with the printed ratios of OSAFL to the second best."""
    return Experiment(
        title=title,
        claims=history_claims(k, printed, accuracy, loss),
        cases=lambda quick: setting.table_cases(["lstm"], [k], quick),
        plot=lambda rows: table(rows, ["lstm"], k, printed),
        check=lambda rows: check_history(rows, k, printed, accuracy, loss),
        store=setting.STORE,
        table=lambda rows: side_by_side(rows, ["lstm"], k, printed),
    )
