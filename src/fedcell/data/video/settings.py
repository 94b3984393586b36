"""The settings of the video-request world, and the two presets of the papers that use it."""

from dataclasses import dataclass
from math import inf

from ...errors import BadInput, choose_one
from ...options import Law, option
from ..scaling import SCALINGS

MOST_STORED = 1e7  # samples of a user, if there is a limit at all
KNOWABLE = ("served", "reports")  # what an edge server can be allowed to see


@dataclass(frozen=True)
class VideoConfig:
    """Files, users, requests and samples. A number or range such as `0.4..0.9` is drawn per user."""

    n_genres: int = option(5, "genres of the catalogue", least=2, most=10_000)
    files_per_genre: int = option(20, "files in each genre", least=2, most=100_000)
    content: str = option(
        "synthetic",
        "features of a file: synthetic (3 x 32 x 32 image-like), uniform (random vectors), or the path of an .npz "
        "file with images x and labels y, of which the first of each label is taken",
    )
    scaling: str = option(
        "unit",
        "unit: content in [0, 1]; half: in [-1, 1]; standard: mean 0 and deviation 1 over all files, per channel. "
        "Similarities are those of the scaled content, so that requests depend on it",
        choices=SCALINGS,
    )
    content_width: int = option(64, "length of a file's features (content=uniform)", least=1, needs="content=uniform")

    alpha: float = option(0.3, "concentration of a user's genre preferences: small is more skewed", above=0)
    stay: Law = option(
        Law((0.4, 0.9), "uniform"), "probability that the next request stays in the genre", least=0, most=1
    )
    similar: int = option(1, "a request that stays picks one of so many most similar files", least=1)
    explore: str = option(
        "zipf",
        "a request that leaves the genre picks by popularity, or the most popular file",
        choices=("zipf", "top"),
    )
    skew: float = option(1.2, "exponent of the popularity law (explore=zipf)", least=0, needs="explore=zipf")
    shift: float = option(2.0, "added to the popularity rank (explore=zipf)", above=-1, needs="explore=zipf")

    activity: Law = option(Law((0.3, 0.8), "uniform"), "probability of a request in each arrival slot", least=0, most=1)
    slots: int = option(32, "arrival slots between two rounds", least=0)
    slots_by_activity: bool = option(True, "a user has ceil(slots * activity) slots instead of all")
    capacity: Law = option(
        Law((320.0, 640.0), "uniform"), "samples a user can store; inf: no limit", least=1, infinite=True
    )
    initial: float = option(inf, "samples stored before the first round, at most the capacity", least=0, infinite=True)
    cache: str = option("fifo", "what a full store keeps", choices=("fifo", "srsr", "drsr", "lazy"))
    theta: float = option(2 / 3, "weight of new label shares (cache=srsr)", least=0, most=1, needs="cache=srsr")

    features: str = option(
        "content",
        "a sample's input: content (of the requested file, and the user), compact (the same without the content), or "
        "history (the last requests as tokens)",
        choices=("content", "compact", "history"),
    )
    layout: str = option(
        "flat",
        "shape of a content sample: one row, or an image with 3 channels",
        choices=("flat", "image"),
        needs="features=content",
    )
    genre_repeats: int = option(
        70, "times the genre number is repeated (features=content)", least=0, needs="features=content"
    )
    history: int = option(10, "requests of a sample (features=history)", least=1, needs="features=history")
    edge_files: int = option(0, "files that the edge server of every cell holds; 0: there are no edge servers", least=0)
    edge_placement: str = option(
        "predicted",
        "what edge servers hold: predicted (files that users' models foretell), popular (most requested so far), lru, "
        "lfu, genie (knows the coming requests), random, none (no edge servers)",
        choices=("predicted", "popular", "lru", "lfu", "genie", "random", "none"),
        needs="edge_files!=0",
    )
    edge_reports: int = option(
        8,
        "likeliest next files that a user names to the edge server (edge_placement=predicted)",
        least=1,
        needs="edge_placement=predicted",
    )
    edge_margin: float = option(
        0.0,
        "a file is fetched instead of a held one only if so many more requests for it are expected until the horizon; "
        "at 1, fetching pays until then",
        least=0,
        needs="edge_placement=predicted|popular|genie|random",
    )
    edge_horizon: float = option(
        1.0,
        "rounds that a placement looks ahead; models foretell the next request, what was served the others",
        above=0,
        needs="edge_placement=predicted|popular",
    )
    edge_prefetch: bool = option(
        True,
        "edge servers fetch files between rounds; false: they keep files that a miss brings past, if more wanted",
        needs="edge_placement=predicted|popular|genie|random",
    )
    edge_knows: tuple[str, ...] = option(
        KNOWABLE,
        "what an edge server may see: served (files it has served), reports (files that users name); a placement that "
        "asks for more is refused",
        needs="edge_files!=0",
    )
    file_bit: Law = option(Law((2e8,)), "size of a file in bits", above=0, needs="edge_files!=0")
    file_sizes: str = option(
        "", "CSV file with the bits of every file, one number per line, instead of file_bit", needs="edge_files!=0"
    )
    backhaul_bps: float = option(5e7, "rate of a file on the backhaul", above=0, needs="edge_files!=0")
    downlink_bps: float = option(1e8, "rate of a file from a base station to a user", above=0, needs="edge_files!=0")

    test_samples: int = option(100, "test samples of each user", least=1)
    test_warm_up: int = option(100, "requests before the first test sample", least=1)

    @property
    def n_files(self) -> int:
        return self.n_genres * self.files_per_genre

    @property
    def lead(self) -> int:
        """Requests before the first sample: what its input is made of."""
        return self.history if self.features == "history" else 1

    def __post_init__(self) -> None:
        if self.similar >= self.files_per_genre:
            raise BadInput(
                f"video.similar = {self.similar} but a file has {self.files_per_genre - 1} others in its genre: "
                "lower it or raise video.files_per_genre"
            )
        if min(self.capacity.values, default=inf) <= self.slots:  # a lost table has none
            raise BadInput(
                f"video.capacity = {self.capacity} does not exceed video.slots = {self.slots}: "
                "let fewer samples arrive in a round than a store holds"
            )
        if any(MOST_STORED < one < inf for one in self.capacity.values):
            raise BadInput(
                f"video.capacity = {self.capacity} is out of range: give at most {MOST_STORED:g} samples, or inf"
            )
        if inf in self.capacity.values and self.initial == inf:
            raise BadInput("video.capacity = inf needs a finite video.initial: say how many samples there are at first")
        for part in self.edge_knows:
            if part not in KNOWABLE:
                raise BadInput(f"video.edge_knows names {part!r}{choose_one(part, list(KNOWABLE))}")
        if self.edge_files > self.n_files:
            raise BadInput(
                f"video.edge_files = {self.edge_files} but the catalogue has {self.n_files} files: lower it, or raise "
                "video.files_per_genre"
            )


OSAFL = VideoConfig(scaling="half")
# 50 requests make 49 samples.
RAWHFL = VideoConfig(
    n_genres=8,
    files_per_genre=32,
    content="uniform",
    stay=Law((0.1, 0.8), "uniform"),
    explore="top",
    activity=Law((0.2, 0.8), "uniform"),
    slots=1,
    slots_by_activity=False,
    capacity=Law((inf,)),
    initial=49.0,
    features="compact",
)
PRESETS = {"osafl": OSAFL, "rawhfl": RAWHFL}
