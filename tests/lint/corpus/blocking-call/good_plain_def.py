"""Not on the loop, as far as can be seen."""

import sqlite3
import time


def load(path):
    time.sleep(1)
    connection = sqlite3.connect(path)
    return connection.execute("select 1").fetchall()
