"""A PostgreSQL that MLflow writes to, down when a sweep begins or killed in mid-run; then it runs again."""

import atexit
from random import Random

from chaos.faults import Strike, fault, rows_in_words
from chaos.sandbox import Sandbox
from chaos.trackers import URI
from postgres_server import NO_POSTGRES, Postgres, programs

LAST_ROW = 75
POSTGRES = Postgres()
atexit.register(POSTGRES.close)


def _struck(*, down: bool) -> Strike:
    """It costs no trial and is said in a line; once the database runs again `mirror` makes up for all."""

    def strike(box: Sandbox, draw: Random) -> str:
        box.write(tracking={"enabled": True})
        if programs() is None:
            box.finish(box.start())
            return f"not struck: {NO_POSTGRES}"
        server = POSTGRES.server()
        box.servers.append(server.close)
        box.environment[URI] = server.uri
        box.expected.add("mlruns")  # where MLflow has the artifacts of a database elsewhere
        if not down:
            server.start()
        command = box.start()
        if not down:
            box.until_rows(draw.randint(1, LAST_ROW), command)
        where = "from the start" if down else rows_in_words(box)
        server.kill()
        box.finish(command)
        assert not down or "no database answers" in box.said, box.said
        server.start()
        return where

    return strike


fault("PostgreSQL down", draws=1)(_struck(down=True))
fault("PostgreSQL killed", draws=2)(_struck(down=False))
