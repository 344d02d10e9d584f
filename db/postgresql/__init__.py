"""A leaderboard in a PostgreSQL server, which several people write and read. Files belong in `prmcal.db.connection`.

address      the address of a database, whose text has no password
connection   connections to a server, with errors translated for users
content      replacing what the server has by the content of a file
shared       the transaction of a writer, and the files that were merged
"""
