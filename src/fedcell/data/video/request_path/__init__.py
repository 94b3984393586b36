"""How a request reaches the content provider and a video the user, and what everybody on the way learns.

An executable model of the network's twelve steps with real cryptography (extra `privacy`): parties hold their own keys
and logs and nothing else, and every message is bytes that were counted.

    user -> base station -> access provider (ISP) -> content provider (CSP)     a sealed request with a tag
    CSP -> ISP -> base station -> edge server                                   a locked order
    edge server -> base station -> user                                        the locked video

`tags` has the tags of a period and who can tell them, `parties` what each party does, `network` puts them together,
`attacks` measures what logs give away.

Reference: rawhfl, section II-A and Figure 2
"""

from .attacks import frequency_attack, guesses, tag_period
from .messages import Links
from .network import RequestNetwork, build_network
from .parties import BaseStation, ContentProvider, EdgeServer, InternetProvider, User
from .tags import tag_of, tag_table

__all__ = [
    "BaseStation",
    "ContentProvider",
    "EdgeServer",
    "InternetProvider",
    "Links",
    "RequestNetwork",
    "User",
    "build_network",
    "frequency_attack",
    "guesses",
    "tag_of",
    "tag_period",
    "tag_table",
]
