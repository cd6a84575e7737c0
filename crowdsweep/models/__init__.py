"""Models behind one contract, and the arithmetic that they share.

They see training data and seeds; no gold, no scores, no engine.

This package can be called: `crowdsweep.models()` is the title of each model, by name. A function of the package above
could not keep that name, since importing any model puts this package there.
"""

import sys
from types import ModuleType

from crowdsweep.registry import discovery


class _Listing(ModuleType):
    def __call__(self) -> dict[str, str]:
        """Returns the title of each model by name, sorted, without importing any.

        Raises:
            BadInput: two places define the same name.
        """
        return discovery.titles("model")


sys.modules[__name__].__class__ = _Listing
