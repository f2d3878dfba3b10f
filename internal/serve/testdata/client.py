"""Uses a server as applications do: client.py PORT DATABASE. Prints what it sees."""
import sys

import pymysql

c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database=sys.argv[2], charset="utf8mb4")
with c.cursor() as cur:
    cur.execute("CREATE TABLE py (id INT PRIMARY KEY, name VARCHAR(50), amount DECIMAL(10,2)) PARTITION BY HASH (id) PARTITIONS 4")
    cur.executemany("INSERT INTO py VALUES (%s, %s, %s)", [(i, None if i % 10 == 0 else "näme %d" % i, "%d.25" % i) for i in range(1, 201)])
    c.rollback()
    cur.execute("SELECT COUNT(*) FROM py")
    print("rolled back", cur.fetchone())
    cur.executemany("INSERT INTO py VALUES (%s, %s, %s)", [(i, None if i % 10 == 0 else "näme %d" % i, "%d.25" % i) for i in range(1, 201)])
    c.commit()
    cur.execute("SELECT SUM(id) FROM py")
    cur.execute("SHOW WARNINGS")
    print("as drivers begin:", cur.fetchone()[2])
    c.autocommit(True)
    for _ in range(3):
        cur.execute("SELECT name, COUNT(*), SUM(amount) FROM py WHERE id > %s GROUP BY name ORDER BY name LIMIT 2", (100,))
        print(cur.description[2][0], cur.fetchall())
    try:
        cur.execute("SELECT nothing FROM py")
    except pymysql.err.OperationalError as e:
        print("error", e.args[0])
with c.cursor(pymysql.cursors.SSCursor) as cur:
    cur.execute("SELECT id, name FROM py ORDER BY id")
    print("streamed", sum(1 for _ in cur))
c.ping()
c.select_db("information_schema")
c.close()
