import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that appends the value of each record to a file, as a line. */
public class LinesSink extends SinkConnector {
  private Map<String, String> config;

  @Override
  public void start(Map<String, String> config) {
    this.config = config;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int tasks) {
    return Collections.nCopies(tasks, config);
  }

  @Override
  public Class<? extends Task> taskClass() {
    return Lines.class;
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef()
        .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file of lines");
  }

  @Override
  public void stop() {}

  @Override
  public String version() {
    return "1";
  }

  /** One of the sink's tasks. */
  public static class Lines extends SinkTask {
    private Path file;

    @Override
    public void start(Map<String, String> config) {
      file = Path.of(config.get("file"));
    }

    @Override
    public void put(Collection<SinkRecord> records) {
      List<String> lines = new ArrayList<>();
      for (SinkRecord line : records) {
        lines.add(String.valueOf(line.value()));
      }
      try {
        Files.write(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
      return "1";
    }
  }
}
