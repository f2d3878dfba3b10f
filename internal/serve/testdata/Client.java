import java.sql.*;
import java.util.*;

// Uses a server as applications do: java -cp CONNECTOR.jar Client.java URL PREFIX. Prints what it sees.
public class Client {
  public static void main(String[] args) throws Exception {
    String t = args[1];
    try (Connection c = DriverManager.getConnection(args[0])) {
      try (Statement s = c.createStatement()) {
        s.executeUpdate("CREATE TABLE " + t + " (id INT PRIMARY KEY, name VARCHAR(50), at DATETIME(3), amount DECIMAL(10,2)) PARTITION BY HASH (id) PARTITIONS 4");
      }
      c.setAutoCommit(false);
      try (PreparedStatement p = c.prepareStatement("INSERT INTO " + t + " VALUES (?, ?, ?, ?)")) {
        for (int i = 1; i <= 200; i++) {
          p.setInt(1, i);
          p.setString(2, i % 10 == 0 ? null : "näme " + i);
          p.setTimestamp(3, Timestamp.valueOf("2024-02-03 04:05:06"));
          p.setBigDecimal(4, new java.math.BigDecimal(i + ".25"));
          p.addBatch();
        }
        System.out.println("batch " + p.executeBatch().length);
      }
      c.rollback();
      System.out.println("rolled back " + number(c, "SELECT COUNT(*) FROM " + t));
      try (PreparedStatement p = c.prepareStatement("INSERT INTO " + t + " VALUES (?, ?, ?, ?)")) {
        for (int i = 1; i <= 200; i++) {
          p.setInt(1, i);
          p.setString(2, i % 10 == 0 ? null : "näme " + i);
          p.setTimestamp(3, Timestamp.valueOf("2024-02-03 04:05:06"));
          p.setBigDecimal(4, new java.math.BigDecimal(i + ".25"));
          p.addBatch();
        }
        p.executeBatch();
      }
      c.commit();
      c.setAutoCommit(true);
      System.out.println("committed " + number(c, "SELECT COUNT(*) FROM " + t));
      for (int round = 0; round < 3; round++) {
        try (PreparedStatement p = c.prepareStatement("SELECT name, COUNT(*) AS n, SUM(amount) AS total, MIN(at) AS first FROM " + t + " WHERE id > ? GROUP BY name ORDER BY name LIMIT 2")) {
          p.setInt(1, 100);
          try (ResultSet r = p.executeQuery()) {
            ResultSetMetaData m = r.getMetaData();
            while (r.next()) {
              System.out.println(m.getColumnLabel(3) + " " + r.getString(1) + " " + r.getLong(2) + " " + r.getBigDecimal(3) + " " + r.getTimestamp(4));
            }
          }
        }
      }
      try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
        s.setFetchSize(50);
        int n = 0;
        try (ResultSet r = s.executeQuery("SELECT id, name FROM " + t + " ORDER BY id")) {
          while (r.next()) n++;
        }
        System.out.println("streamed " + n);
      }
      try (Statement s = c.createStatement()) {
        s.executeQuery("SELECT nothing FROM " + t);
      } catch (SQLException e) {
        System.out.println("error " + e.getErrorCode() + " " + e.getSQLState());
      }
      long begun = System.nanoTime();
      try (Statement s = c.createStatement()) {
        s.setQueryTimeout(1);
        s.executeQuery("SELECT SLEEP(20) FROM " + t + " LIMIT 1").next();
      } catch (SQLException e) {
        // Some connectors let the server wake it.
      }
      System.out.println(System.nanoTime() - begun < 15e9 ? "timed out" : "slept");
      System.out.println("still there " + number(c, "SELECT MAX(id) FROM " + t));
    }
  }

  static long number(Connection c, String q) throws SQLException {
    try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(q)) {
      r.next();
      return r.getLong(1);
    }
  }
}
