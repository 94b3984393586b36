"""What a device does with the part of an update that does not reach the server: settings that codings share.

Not a coding itself: it has no `build`.
"""

from dataclasses import dataclass

from ..options import Checked, option


@dataclass(frozen=True)
class Keeping(Checked):
    """Settings of a coding with error feedback."""

    feedback: bool = option(True, "add what was not sent to the next update of the device")
    lost: str = option(
        "dropped",
        "what was sent and lost: dropped, as without a coding; kept: sent again with the next update",
        choices=("dropped", "kept"),
        needs="feedback=true",
    )

    @property
    def keeps_lost(self) -> bool:
        return self.feedback and self.lost == "kept"
