"""A busy database blocks for seconds."""

import sqlite3


class Store:
    def __init__(self, path):
        self.connection = sqlite3.connect(path)

    async def add(self, row):
        self.connection.execute("insert into t values (?)", row)  # BAD
        self.connection.commit()  # BAD
