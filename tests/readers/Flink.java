import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Runs the statements of a file, which end with a semicolon, and prints what the last one, a query, gives: a line a change, cells apart by tabs. */
public final class Flink {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.setString("parallelism.default", "1");
    configuration.setString("table.local-time-zone", "UTC");
    TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
    String[] statements = Files.readString(Path.of(arguments[0])).split(";\\s*(\n|$)");
    for (int i = 0; i < statements.length - 1; i++) {
      tables.executeSql(statements[i]).await();
    }
    CloseableIterator<Row> rows = tables.executeSql(statements[statements.length - 1]).collect();
    while (rows.hasNext()) {
      System.out.println(line(rows.next()));
    }
  }

  private static String line(Row row) {
    StringBuilder line = new StringBuilder(row.getKind().shortString());
    for (int i = 0; i < row.getArity(); i++) {
      line.append('\t').append(cell(row.getField(i)));
    }
    return line.toString();
  }

  private static String cell(Object value) {
    if (value instanceof byte[] bytes) {
      StringBuilder text = new StringBuilder();
      for (byte b : bytes) {
        text.append(String.format("%02x", b));
      }
      return text.toString();
    }
    return String.valueOf(value);
  }
}
